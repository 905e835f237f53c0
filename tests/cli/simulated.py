"""`weft simulate` on small files, for its tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli.terminal import listed, node, pod, pool, split, weft, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Ending

SHORT = "poisson:rate=2,seconds=60,isl=500,osl=50"
ROWS = "arrival_s,input_tokens,output_tokens\n"
SLO = {"ttft": {"p95": "1s"}, "tpot": {"p95": "50ms"}}


def fill(folder: Path) -> None:
    """A pool, a split, both together, two boards, one that is in use, and a trace of three requests."""
    written(folder / "pool.yaml", pool(slo=SLO))
    written(folder / "both.yaml", pool(), split())
    written(folder / "split.yaml", split())
    written(folder / "nodes.yaml", listed(node("board-0"), node("board-1")))
    written(folder / "full.yaml", listed(node("board-0"), pod("training", "board-0", 8)))
    (folder / "trace.csv").write_text(f"{ROWS}0.5,500,50\n20,400,60\n40,500,1\n")


def simulated(*options: str, file: str = "pool.yaml", trace: str = SHORT) -> Ending:
    """How the command ends in a folder with these files."""
    return weft("simulate", "-f", file, "--fabric", "nodes.yaml", "--trace", trace, *options)


def data(*options: str, **where: str) -> Any:  # noqa: ANN401 - JSON
    """Its answer as JSON."""
    ending = simulated("-o", "json", *options, **where)
    assert ending.code == 0, ending.err
    return json.loads(ending.out)


def assert_refused(ending: Ending, words: str) -> None:
    assert (2, "") == (ending.code, ending.out)
    assert words in ending.sentence
