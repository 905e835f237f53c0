"""The demo shows what the pages promise: this fabric, this traffic, this fault, these pools."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.demo import scenario
from tests.cli.terminal import listed, weft, written
from tests.demo.looks import NAMES, look, nodes, resources

if TYPE_CHECKING:
    from weft.twin.live.fleet import LiveStream

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
each_stream = pytest.mark.parametrize("stream", scenario.STREAMS, ids=lambda stream: stream.name)


def test_the_fabric_is_eight_boards_and_one_rack() -> None:
    domains = look().fabric.domains
    shapes = Counter((domain.accelerator, tuple(node.total for node in domain.nodes)) for domain in domains)
    assert {("H200", (8,)): 8, ("GB200", (4,) * 18): 1} == shapes
    assert scenario.FABRIC_WORDS == "8 boards of 8 H200 and one NVL72 rack of 18 trays with 4 GB200"


def test_the_readme_counts_the_nodes_the_pools_and_the_minutes() -> None:
    assert (26, 3, 240.0) == (len(scenario.nodes()), len(scenario.STREAMS), scenario.RUN_SECONDS)
    assert "26 simulated GPU nodes, three pools, four minutes" in README


@each_stream
def test_traffic_rises_and_falls_inside_the_run(stream: LiveStream) -> None:
    """Both are seen from their beginning to their end."""
    rates = [stream.profile.rate(float(second)) for second in range(int(scenario.RUN_SECONDS) + 1)]
    peak = rates.index(max(rates))
    assert rates[0] == rates[1] < rates[peak]
    assert rates[-1] == rates[-2] < rates[peak]
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)


def test_the_tray_fails_before_it_returns_and_both_are_seen() -> None:
    assert 0 < scenario.TRAY_FAILS_AT < scenario.TRAY_RETURNS_AT < scenario.RUN_SECONDS


def test_the_pools_are_valid_and_have_room_and_every_stream_names_one(tmp_path: Path) -> None:
    """Both halves of the split as its one stream names them, and no pool without a stream."""
    fabric = written(tmp_path / "nodes.yaml", listed(*nodes()))
    ending = weft("plan", "-f", str(scenario.POOLS_FILE), "--fabric", fabric, "-o", "json")
    assert ending.code == 0, ending.err
    pools = {pool["name"]: pool for resource in json.loads(ending.out) for pool in resource["pools"]}
    streamed = [name for stream in scenario.STREAMS for name in (stream.pool, stream.decode_pool) if name is not None]
    assert sorted(streamed) == sorted(pools)
    assert {name: pool["replicas"] for name, pool in pools.items()} == {
        name: len(pool["assignments"]) for name, pool in pools.items()
    }


def test_every_stream_is_called_as_its_resource_is() -> None:
    """The report and the verdict look resources up by the name of the stream."""
    assert sorted(NAMES) == sorted(body["metadata"]["name"] for body in resources())
