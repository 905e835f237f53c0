"""A split goes from routers to a Gateway or back: what serves stays reached until what comes is, at any moment.

Rules S1 and S6 of docs/rules.md. The front of the earlier type goes once the current generation is a pair behind one
that answers, whatever the reason why it is not: no ServiceAccount, no Gateway, no room, no such kind, a taken name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.holding.cluster import boards
from tests.holding.operation import TEAM, Json
from tests.holding.pairs import HALVES
from tests.holding.picked import GATEWAY, GROUP, PickedPair, picked_body
from tests.holding.test_generations import newer
from weft.domain import labels
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGED = {"type": "Managed", "replicas": 2}
MISSING = Explanation(Reason.GatewayAPIMissing, "the cluster has no httproutes")
TOLD_NO_ACCOUNT = {"type": "ReplicaFailure", "status": "True", "message": 'serviceaccount "weft-router" not found'}


class Fronted(PickedPair):
    """Routers of the pairs in `dead` never start; with None of all that come from then on."""

    dead: frozenset[str] | None = frozenset()

    def route(self) -> None:
        super().route()
        for record in self.cluster.objects_of(TEAM):
            if record.kind == "Deployment" and self._is_dead(record.body):
                self._answer(record.name, answers=False)
                status = {"readyReplicas": 0, "conditions": [TOLD_NO_ACCOUNT]}
                self.cluster.object("Deployment", record.name)["status"] = status

    def _is_dead(self, deployment: Mapping[str, Any]) -> bool:
        pair = deployment["spec"]["template"]["metadata"]["labels"][labels.PAIR]
        return self.dead is None or pair in self.dead

    def by_routers(self) -> dict[str, int]:
        """Pairs that the Service reaches, by generation; fails if one of its routers finds half a pair."""
        if not self.has("Service", "duo"):
            return {}
        answering = {pair for pair in self.routers() if self.dead is not None and pair not in self.dead}
        found = {pair: min(len(self.engines(half, pair)) for half in HALVES) for pair in answering}
        assert all(found.values()), found
        return found

    def by_picker(self) -> dict[str, int]:
        """Pairs that requests reach by the route."""
        if not self.there or self.lacks is not None or not self.has("HTTPRoute", "duo"):
            return {}
        found = min(len(self.shown(half)) for half in HALVES)
        return dict.fromkeys(self.shown_pairs(), found) if found else {}

    def reached(self) -> int:
        """Pairs that requests reach by either way; each generation once."""
        both = (self.by_routers(), self.by_picker())
        return sum(max(each.get(pair, 0) for each in both) for pair in {pair for each in both for pair in each})

    def has(self, kind: str, name: str) -> bool:
        return any((each.kind, each.name) == (kind, name) for each in self.cluster.objects_of(TEAM))

    def ask_for(self, **parts: Json) -> None:
        self.split["spec"] = {**self.split["spec"], **parts}
        self.split["metadata"]["generation"] += 1

    def told(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition of the split."""
        (found,) = (each for each in self.split["status"]["conditions"] if each["type"] == kind)
        return found["status"], found["reason"], found["message"]

    def miss_a_probe(self, half: str) -> None:
        """One engine of a half is not ready for a turn."""
        name = next(name for name in self.cluster.pods if name.startswith(f"duo-{half}"))
        self.cluster.stumble(name)
        self.turn()
        self.cluster.stumble(name, ready=True)


def settled(counts: tuple[int, int], router: Json, nodes: int = 4, **more: Any) -> Fronted:  # noqa: ANN401
    world = Fronted.on(boards(nodes), picked_body(*counts, router=router, **more))
    world.turn(12)
    assert min(counts) == world.reached()
    return world


def assert_reached(world: Fronted, least: int, turns: int = 60) -> None:
    for _ in range(turns):
        world.turn()
        assert world.reached() >= least, world.cluster.describe()


@pytest.mark.parametrize("count", [1, 3])
def test_a_gateway_serves_on_while_routers_cannot_start_and_both_conditions_say_why(count: int) -> None:
    world = settled((count, count), GATEWAY)
    world.dead = None
    world.ask_for(router=MANAGED)
    assert_reached(world, count)
    assert world.told("Ready")[:2] == ("True", Reason.Serving)
    assert "weft-router" in world.told("Reconciling")[2]
    assert "until a router of the new one answers" in world.conditions_of("duo-prefill")["Placed"][2]
    world.dead = frozenset()
    assert_reached(world, count)
    assert not world.has("HTTPRoute", "duo")


def test_routers_serve_on_while_no_gateway_takes_the_route() -> None:
    world = settled((3, 3), MANAGED)
    world.there = False
    world.ask_for(router=GATEWAY)
    assert_reached(world, 3)
    assert "no Gateway has accepted HTTPRoute duo yet" in world.told("Reconciling")[2]
    assert "until a Gateway takes requests to the new one" in world.conditions_of("duo-prefill")["Placed"][2]
    assert world.split["status"]["url"]
    world.there = True
    assert_reached(world, 3)
    assert not world.has("Service", "duo")


@pytest.mark.parametrize(("before", "after"), [(MANAGED, GATEWAY), (GATEWAY, MANAGED)])
def test_a_missed_probe_takes_no_front_while_there_is_no_room_for_another_generation(before: Json, after: Json) -> None:
    world = settled((1, 2), before, nodes=1)
    world.cluster.occupy("b-0", 5)
    world.ask_for(router=after)
    world.turn(10)
    world.miss_a_probe("prefill")
    assert_reached(world, 1)
    assert world.told("Ready")[:2] == ("True", Reason.Serving)


def test_routers_stay_where_a_gateway_is_refused() -> None:
    """SGLang's halves have no sidecar, so that no picker would find them."""
    world = settled((1, 2), MANAGED, engine={"name": "SGLang"})
    world.ask_for(router=GATEWAY)
    assert_reached(world, 1, turns=5)
    world.miss_a_probe("prefill")
    assert_reached(world, 1)
    assert world.told("Planned")[:2] == ("False", Reason.FeatureUnsupported)


@pytest.mark.parametrize(
    ("before", "after", "kind", "api"),
    [(MANAGED, GATEWAY, "InferencePool", GROUP), (GATEWAY, MANAGED, "Service", "v1")],
    ids=["picker", "service"],
)
def test_the_earlier_front_stays_while_a_name_of_the_next_one_is_taken(
    before: Json, after: Json, kind: str, api: str
) -> None:
    world = settled((2, 2), before)
    theirs = {"name": "duo", "namespace": TEAM, "uid": "theirs", "labels": {}}
    world.cluster.add_object({"apiVersion": api, "kind": kind, "metadata": theirs, "spec": {"selector": {"app": "x"}}})
    world.ask_for(router=after)
    for _ in range(40):
        world.turn()
        ways = world.by_picker() if before is GATEWAY else world.by_routers()
        assert sum(ways.values()) >= 2, world.cluster.describe()
    assert world.told("Stalled")[:2] == ("True", Reason.NameTaken)


@pytest.mark.parametrize("more", [{}, {"engine": {"name": "SGLang"}}], ids=["arguments", "engine"])
def test_a_pair_is_not_given_up_for_one_whose_routers_never_start(more: Json) -> None:
    world = settled((4, 4), MANAGED)
    (old,) = world.pairs()
    if more:
        world.ask_for(**more)
    else:
        newer(world)
    for _ in range(60):
        world.turn()
        world.dead = frozenset(world.pairs() - {old})
        assert world.by_routers().get(old) == 4
    assert "no pod of Deployment" in world.told("Reconciling")[2] or "weft-router" in world.told("Reconciling")[2]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("turns", range(2, 14))
def test_an_edit_of_the_type_in_mid_roll_loses_no_pair(count: int, turns: int) -> None:
    """New engines start slowly, so that nothing but what is there can serve."""
    world = settled((count, count), MANAGED, nodes=6)
    newer(world)
    world.turn(turns)
    world.cluster.deaf = True
    world.ask_for(router=GATEWAY)
    assert_reached(world, count, turns=25)


def test_without_the_kinds_of_gateways_the_service_still_leads_to_whole_pairs_only() -> None:
    world = settled((2, 2), MANAGED)
    world.lacks = MISSING
    world.ask_for(router=GATEWAY)
    assert_reached(world, 2, turns=20)
    (old,) = (pair for pair in world.pairs() if world.by_routers().get(pair))
    ends = world.engines("prefill", old)
    for name in ends:
        world.cluster.stumble(name)
    world.turn(3)
    assert {} == world.by_routers()
    for name in ends:
        world.cluster.stumble(name, ready=True)
    world.turn()
    assert_reached(world, 2, turns=5)
    world.lacks = None
    assert_reached(world, 2, turns=30)
    assert not world.has("Service", "duo")


@pytest.mark.parametrize("rollout", [{}, {"maxSurge": 4}], ids=["one", "all"])
@pytest.mark.parametrize("count", [1, 4])
def test_routers_that_miss_their_probes_give_nobody_up_for_a_pair_whose_routers_never_start(
    count: int, rollout: Json
) -> None:
    """All routers of the earlier pair on a node that is drained, while those of the next one find no image."""
    world = settled((count, count), MANAGED, rollout=rollout)
    (old,) = world.pairs()
    newer(world)
    for turn in range(40):
        world.turn()
        blips = 20 <= turn < 25
        world.dead = None if blips else frozenset(world.pairs() - {old})
        assert blips or world.by_routers() == {old: count}


def test_a_split_is_ready_by_the_replicas_that_are_reached_alone() -> None:
    world = settled((4, 4), MANAGED, rollout={"maxSurge": 4})
    (old,) = world.pairs()
    newer(world)
    for _ in range(20):
        world.turn()
        world.dead = frozenset(world.pairs() - {old})
    ready = world.told("Ready")
    assert (ready[0], ready[2]) == ("True", "4 of 4 prefill, 4 of 4 decode replicas serve")
    for half in HALVES:
        for name in world.engines(half, old)[:3]:
            world.cluster.stumble(name)
    world.turn(2)
    assert world.by_routers() == {old: 1}
    assert world.told("Ready")[0] == "False"
