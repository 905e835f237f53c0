"""What converging one resource gets to see of the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import changed, over_nvlink, plan, pool, spec
from weft.control.converging.view import View, by_whom
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.fabric import Fabric
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import ResourceKey, SplitRecord
from weft.domain.status import Condition, SplitStatus
from weft.domain.workload import Role

HALF = replace(pool(spec(Role.Decode, pair="new"), plan(), ("node-a",)), split_uid="uid-split")
ENGINE = PodRecord(
    "team", "engine", "1", PodPhase.Running, "node-a", (), PodIdentity(HALF.key.uid, 3, 0, ""), pair="new"
)
ROUTER = PodRecord("team", "router", "2", PodPhase.Running, "node-b", (), front_of="uid-split", pair="old")
FOREIGN = PodRecord("team", "job", "3", PodPhase.Running, "node-b", (("nvidia.com/gpu", 1),))


def view(*pods: PodRecord) -> View:
    return View((0, 0), Fabric(()), {HALF.key.uid: HALF}, {}, by_whom(pods), {}, {})


def test_a_half_sees_the_routers_before_its_split() -> None:
    """Without them the last replicas of a generation would leave while these still choose them."""
    assert view(ENGINE, FOREIGN, ROUTER).pods_near(HALF) == (ENGINE, ROUTER)


def test_a_pool_of_its_own_sees_its_own_pods() -> None:
    assert view(ENGINE, ROUTER).pods_near(replace(HALF, split_uid=None)) == (ENGINE,)


@pytest.mark.parametrize(
    ("engine", "waits"), [(ENGINE, False), (replace(ENGINE, pair="old"), True), (replace(ENGINE, gated=True), True)]
)
def test_who_waits_for_changes_elsewhere(engine: PodRecord, *, waits: bool) -> None:
    """Half a generation that goes waits for its routers, gated pods for room."""
    assert (HALF.key.uid in set(view(engine, ROUTER).waiting())) is waits


@pytest.mark.parametrize(("engine", "waits"), [("vllm", False), ("", False), ("sglang", True)])
def test_a_pool_with_replicas_of_another_engine_waits_for_the_routers_before_them(engine: str, *, waits: bool) -> None:
    alone = pool(spec(), plan(), ("node-a",))
    seen = View((0, 0), Fabric(()), {alone.key.uid: alone}, {}, by_whom([replace(ENGINE, engine=engine)]), {}, {})
    assert (alone.key.uid in set(seen.waiting())) is waits


@pytest.mark.parametrize(
    ("reason", "kinds", "waits"),
    [
        (Reason.NameTaken, ("Ready",), True),
        (Reason.NameTaken, ("Ready", "Stalled"), False),
        (Reason.ReplicasStarting, ("Ready",), False),
    ],
)
def test_who_wants_a_name_that_somebody_has_waits_for_it(
    *, reason: Reason, kinds: tuple[str, ...], waits: bool
) -> None:
    """What has it may go at any moment, and tells nobody but its own owner. No cache shows what only a write found."""
    told = tuple(Condition(kind, "False", Explanation(reason, "Service team/chat exists")) for kind in kinds)
    key = ResourceKey("PDSplit", "team", "duo", "uid-duo")
    split = SplitRecord(key, 1, None, SplitStatus(), conditions=told)
    seen = replace(view(), pools={HALF.key.uid: replace(HALF, conditions=told)}, splits={key.uid: split})
    assert ({HALF.key.uid, key.uid} if waits else set()) == set(seen.waiting())


@pytest.mark.parametrize(("complete", "waits"), [(False, True), (True, False)])
def test_a_half_without_pods_waits_for_what_its_split_makes(*, complete: bool, waits: bool) -> None:
    """No pod of it is created before the ComputeDomain that both halves share, which the split alone hears of."""
    half = over_nvlink(replace(pool(spec(Role.Decode), plan(), ("node-a",)), split_uid="uid-split"), "a.1")
    assigned = tuple(replace(each, complete=complete) for each in half.status.assignments)
    seen = replace(view(), pools={half.key.uid: changed(half, assignments=assigned)})
    assert (half.key.uid in set(seen.waiting())) is waits
