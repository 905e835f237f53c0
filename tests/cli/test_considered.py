"""`weft explain` of a replica without a place: each NVLink domain, and why it was not taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.catalog import load
from weft.cli.cluster.running import Running
from weft.cli.cluster.sitting import seat
from weft.cli.ends.failure import CommandFailure
from weft.cli.explain.command import run_explain
from weft.cli.explain.considered import SHOWN, considered, considered_page
from weft.cli.telling.terminal import console
from weft.domain.reasons import Reason
from weft.fabric import build_fabric

if TYPE_CHECKING:
    import pytest
    from rich.console import RenderableType

    from weft.cli.cluster.sitting import Sitting
    from weft.cli.explain.considered import Considered
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
IN_USE = 6
EXAMPLE = Path(__file__).parents[2] / "examples" / "fabric" / "serving.yaml"
NO_SLOT = {
    "type": "Placed",
    "status": "False",
    "reason": "NoSlot",
    "message": "",
    "lastTransitionTime": "2026-11-21T08:00:00Z",
}


def text(page: RenderableType) -> str:
    printed = console()
    with printed.capture() as captured:
        printed.print(page)
    return captured.get()


def written(cluster: World, name: str) -> PoolRecord:
    """The pool with the conditions that the operator would have written."""
    return replace(cluster.pools[name], conditions=cluster.decision(name).conditions)


def sitting(cluster: World) -> Sitting:
    pods, pools = tuple(cluster.pods.values()), tuple(cluster.pools.values())
    return seat(build_fabric(cluster.nodes, pods, load()), pods, Running(pools), {})


def found(cluster: World, name: str = "chat") -> Considered | None:
    return considered(written(cluster, name), sitting(cluster))


def crowded(boards: int = 3, held: int = 5) -> World:
    """Boards on each of which somebody holds some GPUs, a rack of another kind, and a pool that wants whole boards."""
    nodes = [*(board(f"b-{index}") for index in range(boards)), *rack("uuid.1", 2)]
    pods = [busy(f"training-{index}", f"b-{index}", held - index % 2) for index in range(boards)]
    cluster = World.of(nodes, pool("chat", pool_spec(8, external(1))), pods=pods)
    cluster.turn()
    return cluster


def test_every_domain_is_named_and_the_most_telling_comes_first() -> None:
    """More free GPUs before fewer, then what is not usable, then what is of another kind."""
    cluster = crowded()
    cluster.nodes = [replace(each, cordoned=each.name == "b-2") for each in cluster.nodes]
    cluster.turn()
    told = found(cluster)
    assert told is not None
    assert [
        ("b-1", Reason.DomainFragmented),
        ("b-0", Reason.DomainFragmented),
        ("b-2", Reason.NodeCordoned),
        ("uuid.1", Reason.WrongAccelerator),
    ] == [(name, why.reason) for name, why in told.domains]


def test_what_it_needs_is_said_once() -> None:
    told = found(crowded())
    assert told is not None
    page = text(considered_page(told))
    assert 1 == page.count("needs 8 GPUs free on one node")
    assert "; 4 NVLink domains considered" in page
    assert "b-1     DomainFragmented  b-1 has 0 such nodes and 4 GPUs free in total" in page


def test_twenty_are_shown_and_the_others_counted() -> None:
    told = found(crowded(boards=30))
    assert told is not None
    page = text(considered_page(told))
    assert SHOWN == page.count("\nnot  ")
    assert "and 11 more: 10 DomainFragmented, 1 WrongAccelerator" in page


def test_a_pool_whose_replicas_have_their_places_has_nothing_to_tell() -> None:
    cluster = World.of([board("b-0")], pool("chat", pool_spec(8, external(1))))
    cluster.turn(IN_USE)
    assert found(cluster) is None


def test_room_that_came_free_since_is_told() -> None:
    """The operator has not come to it yet."""
    cluster = crowded()
    pool_of_then = written(cluster, "chat")
    cluster.pods.pop("training-1")
    told = considered(pool_of_then, sitting(cluster))
    assert told is not None
    assert "would find room now, on b-1" in text(considered_page(told))


def test_its_own_spares_are_said_to_be_kept() -> None:
    """And not to be held by somebody."""
    spec = pool_spec(4, external(3), accelerator="GB200")
    spec = replace(spec, placement=replace(spec.placement, spare_nodes_per_domain=1))
    cluster = World.of(rack("uuid.1", 3), pool("chat", spec))
    cluster.turn(IN_USE)
    told = found(cluster)
    assert told is not None
    ((name, why),) = told.domains
    assert "uuid.1" == name
    assert "spare" in why.message


class _Reader:
    """What a command reads of a cluster that holds the objects of a file; nodes only where they may be read."""

    server, namespace = "https://here", "llm"

    def __init__(self, *, nodes_allowed: bool = True) -> None:
        items = yaml.safe_load(EXAMPLE.read_text())["items"]
        self._nodes_allowed = nodes_allowed
        self._of = {kind: [body for body in items if body["kind"] == kind] for kind in ("Node", "Pod", "InferencePool")}
        for each in self._of["InferencePool"]:
            if each["metadata"]["name"] == "llama-70b":
                each["status"]["conditions"] = [NO_SLOT]

    def resource(self, kind: str, name: str) -> Json:
        return next(body for body in self._of[kind] if body["metadata"]["name"] == name)

    def resources(self, kind: str, *, everywhere: bool) -> list[Json]:
        assert everywhere
        return self._of.get(kind, [])

    def nodes(self) -> list[Json]:
        if not self._nodes_allowed:
            raise CommandFailure("you may not read nodes: ask for get and list on it")
        return self._of["Node"]

    def pods(self) -> list[Json]:
        return self._of["Pod"]

    def optional(self, kind: object) -> list[Json]:  # noqa: ARG002 - the cluster has none of any kind
        return []

    def listed(self, what: str, path: str) -> list[Json]:  # noqa: ARG002 - likewise
        return []


def test_the_command_adds_the_domains_to_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run_explain(_Reader(), "InferencePool", "llama-70b")  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert "shape: H200 BF16 TP4" in out
    assert "llm/llama-70b: H200 BF16 TP4 needs 4 GPUs free on one node; 3 NVLink domains considered" in out
    assert "not  board-2  DomainFragmented  board-2 has 0 such nodes and 2 GPUs free in total" in out
    run_explain(_Reader(), "InferencePool", "chat")  # type: ignore[arg-type]
    assert "considered" not in capsys.readouterr().out


def test_whoever_asks_is_told_where_one_more_would_go(capsys: pytest.CaptureFixture[str]) -> None:
    """And of every other domain why not there, for a pool whose replicas have their places."""
    run_explain(_Reader(), "InferencePool", "chat", domains=True)  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert "llm/chat: one more replica of H200 BF16 TP1 would go to board-2" in out
    assert "not  board-0  OtherPreferred  room for 3 such pods, in board-2 for 2: the larger hole stays whole" in out


def test_where_the_fabric_may_not_be_read_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of the page stays."""
    run_explain(_Reader(nodes_allowed=False), "InferencePool", "llama-70b")  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert "shape: H200 BF16 TP4" in out
    assert "which NVLink domains were considered cannot be told: you may not read nodes" in out
