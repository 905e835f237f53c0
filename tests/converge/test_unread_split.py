"""A split whose spec cannot be read any more: it serves on as it is, and whole pairs only."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.test_gateway import AT_A_GATEWAY
from tests.converge.test_split import DECODE, DUO, FRONT, PREFILL, assert_settles, child, ready, serve
from tests.converge.world import World
from tests.render.pools import RELEASE, split
from weft.domain import labels
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RouterKind
from weft.domain.status import SplitStatus
from weft.domain.workload import Role
from weft.render import front_name, pair_of

if TYPE_CHECKING:
    from weft.domain.snapshot import SplitRecord

URL = "http://duo.team.svc:8000"
PROBLEM = Explanation(Reason.SpecInvalid, "spec.model.id must be a text")
# One that a later release wrote, and one that lost its status: of neither it is known what it shall be.
UNREAD: dict[str, Any] = {"spec": None, "problem": PROBLEM}
UNPLANNED: dict[str, Any] = {"status": SplitStatus()}


def serving(record: SplitRecord = DUO) -> World:
    """The split as it serves, behind a front that answers."""
    world = World()
    assert_settles(world, record, PREFILL, DECODE)
    serve(world, PREFILL, DECODE)
    if record.router_kind is RouterKind.Gateway:
        for body in world.pods.values():
            body["metadata"]["labels"][labels.SPLIT_UID] = record.key.uid  # by which a picker finds them
    if ("Deployment", FRONT) in world.objects:
        world.objects["Deployment", FRONT]["status"] = {"readyReplicas": 1}
    assert_settles(world, record, PREFILL, DECODE)
    return world


def fail_half(world: World, half: str) -> None:
    for name in world.pods:
        if name.startswith(f"duo-{half}"):
            world.fail(name)


def mend(world: World) -> None:
    for body in world.pods.values():
        body["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def chosen(world: World, kind: str = "Service") -> dict[str, Any]:
    selector: dict[str, Any] = world.objects[kind, "duo"]["spec"]["selector"]
    labels_of_pods: dict[str, Any] = selector.get("matchLabels", selector)
    return labels_of_pods


@pytest.mark.parametrize("what", [UNREAD, UNPLANNED])
def test_what_was_known_stays_and_nothing_is_written(what: dict[str, Any]) -> None:
    """L3."""
    world, unread = serving(), replace(DUO, serving=2, **what)
    seen = world.look_at(unread, PREFILL, DECODE)
    assert () == seen.actions
    assert (URL, 2, 1, 1) == (
        seen.progress.url,
        seen.progress.serving_generation,
        seen.progress.prefill_ready,
        seen.progress.decode_ready,
    )
    assert ready(world, unread, PREFILL, DECODE) == ("True", Reason.Serving)


@pytest.mark.parametrize("what", [UNREAD, UNPLANNED])
@pytest.mark.parametrize("half", ["prefill", "decode"])
def test_half_a_pair_is_not_routed_to(half: str, what: dict[str, Any]) -> None:
    """S6; and once the half is back the pair is routed to, in the generation that is known."""
    world, unread = serving(), replace(DUO, serving=2, **what)
    before = dict(chosen(world))
    fail_half(world, half)
    assert_settles(world, unread, PREFILL, DECODE)
    assert "false" == chosen(world)[labels.ROUTED]
    assert ready(world, unread, PREFILL, DECODE) == ("False", Reason.HalfPair)
    assert world.look_at(unread, PREFILL, DECODE).progress.url is None
    mend(world)
    assert_settles(world, unread, PREFILL, DECODE)
    assert before == chosen(world)
    progress = world.look_at(unread, PREFILL, DECODE).progress
    assert (URL, 2) == (progress.url, progress.serving_generation)


def test_the_problem_of_the_spec_is_told_while_it_serves() -> None:
    found = {c.kind: c for c in serving().look_at(replace(DUO, **UNREAD), PREFILL, DECODE).progress.conditions}
    assert PROBLEM == found["Stalled"].explanation


def test_of_two_generations_the_whole_one_is_routed_to() -> None:
    """The next one has a router already, and only one of its halves answers."""
    world = serving()
    later = replace(DUO, status=SplitStatus(replace(RELEASE, version="0.33.0")))
    world.carry_out(*world.look_at(later, PREFILL, DECODE).actions)
    unread = replace(later, **UNREAD)
    next_decode = child(Role.Decode, pair=pair_of(later))
    halves = PREFILL, replace(next_decode, status=DECODE.status)
    assert ("Deployment", front_name(DUO.key, pair_of(later))) in world.objects
    assert_settles(world, unread, *halves)
    assert pair_of(DUO) == chosen(world)[labels.PAIR]
    assert URL == world.look_at(unread, *halves).progress.url


def test_a_picker_is_shown_whole_pairs_only() -> None:
    """S6, behind a Gateway."""
    spec = DUO.spec
    assert spec is not None
    edge = replace(DUO, spec=replace(spec, router=AT_A_GATEWAY))
    world = serving(edge)
    unread = replace(edge, **UNREAD)
    assert () == world.look_at(unread, PREFILL, DECODE).actions
    before = copy.deepcopy(world.objects["InferencePool", "duo"]["spec"])
    wanted = {**before, "selector": {"matchLabels": {**chosen(world, "InferencePool"), labels.ROUTED: "false"}}}
    fail_half(world, "prefill")
    assert_settles(world, unread, PREFILL, DECODE)
    assert wanted == world.objects["InferencePool", "duo"]["spec"]
    mend(world)
    assert_settles(world, unread, PREFILL, DECODE)
    assert before == world.objects["InferencePool", "duo"]["spec"]


def test_between_two_types_of_routers_both_choose_whole_pairs_only() -> None:
    """S6: the Service of the earlier one is kept until the Gateway has taken over."""
    spec = DUO.spec
    assert spec is not None
    edge = replace(DUO, spec=replace(spec, router=AT_A_GATEWAY))
    world = serving()
    world.carry_out(*world.look_at(edge, PREFILL, DECODE).actions)
    world.objects["Service", "duo"] = serving().objects["Service", "duo"]
    world.objects["Deployment", FRONT] = serving().objects["Deployment", FRONT]
    unread = replace(edge, **UNREAD)
    assert URL == world.look_at(unread, PREFILL, DECODE).progress.url
    fail_half(world, "decode")
    assert_settles(world, unread, PREFILL, DECODE)
    assert ["false", "false"] == [chosen(world, kind)[labels.ROUTED] for kind in ("Service", "InferencePool")]


def test_clients_that_choose_pods_themselves_have_no_url() -> None:
    plain = split(router=RouterKind.Nothing)
    world, unread = serving(plain), replace(plain, **UNREAD)
    seen = world.look_at(unread, PREFILL, DECODE)
    assert ((), None) == (seen.actions, seen.progress.url)
    assert ready(world, unread, PREFILL, DECODE) == ("True", Reason.Serving)


def test_a_service_of_somebody_else_is_left_alone_and_named() -> None:
    world = serving()
    theirs = {"name": "duo", "namespace": "team", "uid": "theirs"}
    world.objects["Service", "duo"]["metadata"] = theirs
    unread = replace(DUO, **UNREAD)
    assert () == world.look_at(unread, PREFILL, DECODE).actions
    assert ready(world, unread, PREFILL, DECODE) == ("False", Reason.NameTaken)
