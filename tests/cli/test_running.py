"""Which pools run: of a file that holds them, or of all namespaces of a cluster where they may be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException

from tests.cli.terminal import node, pool, written
from weft.cli.cluster.running import running
from weft.cli.cluster.world import World, world_of_file
from weft.cli.ends.failure import CommandFailure
from weft.cli.fabric.command import run_fabric
from weft.cli.telling.terminal import Format

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]
EXAMPLE = Path(__file__).parents[2] / "examples" / "fabric" / "serving.yaml"


class _Reader:
    """A cluster that answers a list of our resources like this, or fails."""

    server = "https://here"

    def __init__(self, bodies: Iterable[Json] = (), failure: CommandFailure | None = None) -> None:
        self._bodies, self._failure = list(bodies), failure

    def resources(self, kind: str, *, everywhere: bool) -> list[Json]:
        assert everywhere
        if self._failure is not None:
            raise self._failure
        return [{"kind": kind, **body} for body in self._bodies if body["kind"] == kind]

    def listed(self, what: str, path: str) -> list[Json]:
        assert ("priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses") == (what, path)
        return [{"metadata": {"name": "urgent"}, "value": 1000}]


def refused(status: int) -> CommandFailure:
    failure = CommandFailure("you may not read inferencepools.weft.dev: ask for get and list on it")
    failure.__cause__ = ApiException(status=status)
    return failure


def of_cluster(reader: _Reader) -> World:
    return World((), cluster=reader)  # type: ignore[arg-type]


def test_a_file_has_its_pools_with_their_places() -> None:
    found = running(world_of_file(str(EXAMPLE)))
    assert {"chat": 2, "llama-70b": 2, "coder": 1} == {
        each.key.name: len(each.status.assignments) for each in found.pools
    }


def test_a_resource_that_no_api_server_has_seen_does_not_run(tmp_path: Path) -> None:
    """It has no UID, so that no pod can be its own."""
    assert () == running(world_of_file(written(tmp_path / "all.yaml", node("a"), pool()))).pools


def test_priorities_are_those_of_the_cluster() -> None:
    """They decide who keeps the scarce spares."""
    body = pool(pod={"priorityClassName": "urgent"})
    body["metadata"] |= {"namespace": "team", "uid": "u"}
    (found,) = running(of_cluster(_Reader([body]))).pools
    assert 1000 == found.priority


@pytest.mark.parametrize(
    ("status", "told"),
    [(403, "weft: pools are named by their pods alone, as you may not read inferencepools.weft.dev: "), (404, "")],
    ids=["forbidden", "no Weft there"],
)
def test_pools_that_may_not_be_read_are_said_so_on_one_line(
    status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster without Weft has none, which is no news."""
    run_fabric(of_cluster(_Reader(failure=refused(status))), Format.table, None)
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert bool(told) == bool(said)
