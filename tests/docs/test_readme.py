"""The README's first pool is a pool, and `kubectl get` would show it as the README does."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.terminal import listed, node, weft, written
from tests.docs.samples import sample_of, without_figures

if TYPE_CHECKING:
    import pytest

REPOSITORY = Path(__file__).parents[2]
FILE = REPOSITORY / "README.md"
README = FILE.read_text(encoding="utf-8")
SIMULATED = re.findall(r"^```\n\$ weft (simulate .*)\n((?:.*\n)*?)```$", README, flags=re.MULTILINE)


def test_the_table_shows_what_is_decided_for_the_pool_above_it(tmp_path: Path) -> None:
    pool = re.search(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert pool is not None
    fabric = written(tmp_path / "nodes.yaml", listed(node("board-0")))
    ending = weft("plan", "-f", "-", "--fabric", fabric, "-o", "json", stdin=pool[1])
    assert 0 == ending.code, ending.err
    ((decided,),) = (one["pools"] for one in json.loads(ending.out))
    row = next(line for line in README.splitlines() if line.startswith("chat "))
    count = str(decided["replicas"])
    assert ["chat", count, count, decided["plan"]["shape"]] == re.split(r"\s{2,}", row)[:4]


def test_the_simulation_is_as_printed_and_meets_its_slo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures change with whatever decides or serves; an example that misses would be no recommendation.

    `WEFT_GOLDEN=write` records what is printed.
    """
    ((command, shown),) = SIMULATED
    monkeypatch.chdir(REPOSITORY)
    printed = weft(*shlex.split(command)).out
    assert without_figures(sample_of(FILE, command, shown, printed)) == without_figures(printed)
    attained = re.search(r"^within the SLO +([0-9.]+) %$", printed, re.MULTILINE)
    assert attained is not None
    assert float(attained[1]) >= 99
