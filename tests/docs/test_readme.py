"""The README's first pool is a pool, and `kubectl get` would show it as the README does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.terminal import listed, node, weft, written

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


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
