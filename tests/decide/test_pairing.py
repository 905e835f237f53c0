"""How many replicas of a new pair serve while a split rolls: as many as the other half has for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.render.pools import LLAMA, RELEASE, behind_a_gateway, plan, pool, shape, spec
from weft.decide.course import Turn
from weft.decide.plans.planning import Planned
from weft.decide.replicas.health import AssignedReplica
from weft.decide.replicas.survivors import Survivors
from weft.decide.rollouts.pairing import alone_in, unmatched_in
from weft.domain.calibration import CalibrationSubject
from weft.domain.capacity import Capacity
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.pool_memory import ScaleMemory
from weft.domain.reasons import Explanation, Reason
from weft.domain.start_up import StartUp
from weft.domain.status import Assignment
from weft.domain.workload import Role
from weft.scaling import ScaleAnswer

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

OLD, NEW = "old", "new"


def replica(uid: str, number: int, pair: str, *, ready: bool = True) -> AssignedReplica:
    identity = PodIdentity(uid, number, 0, pair)
    pod = PodRecord("team", f"{uid}-{number}", f"{uid}-{number}", PodPhase.Running, "n", (), identity, pair=pair)
    return AssignedReplica(Assignment(number, pair, ("n",), 1, 0.0), (replace(pod, ready=ready),))


ONE = Capacity(1.0)


def turn(record: PoolRecord, desired: int, new: int, old: int) -> Turn:
    """Of a half whose new replicas have ids from 0 and whose earlier ones from 100."""
    uid, wanted = record.key.uid, plan()
    assert record.spec is not None
    subject, memory = CalibrationSubject.of(LLAMA, RELEASE, shape()), ScaleMemory(since=0.0)
    planned = Planned(record, replace(record.spec, pair=NEW), wanted, NEW, ONE, ONE, None, subject, StartUp(1, 1, 1))
    there = [replica(uid, number, NEW) for number in range(new)] + [replica(uid, 100 + n, OLD) for n in range(old)]
    answer = ScaleAnswer(desired, desired, Explanation(Reason.Steady, "steady"), memory)
    return Turn(planned, Survivors(tuple(there)), answer, None, (), memory)


def half(role: Role) -> PoolRecord:
    record = pool(spec(role))
    return replace(record, key=replace(record.key, uid=role.value))


def alone(prefill: tuple[int, int, int], decode: tuple[int, int, int]) -> dict[str, list[int]]:
    """By half, of (desired, new, old)."""
    found = alone_in([turn(half(Role.Prefill), *prefill), turn(half(Role.Decode), *decode)])
    return {
        role.value: sorted(number for uid, number in found if uid == role.value) for role in (Role.Prefill, Role.Decode)
    }


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        ((4, 4, 1), (2, 0, 2), ([0, 1, 2, 3], [])),  # nobody to hand KV to
        ((4, 4, 1), (2, 1, 1), ([2, 3], [])),  # half of the other half: half of these
        ((3, 3, 1), (2, 1, 1), ([1, 2], [])),  # floor(3 / 2)
        ((3, 1, 1), (2, 2, 1), ([], [0, 1])),  # floor(2 / 3) of the other half is none
        ((2, 2, 0), (3, 2, 1), ([1], [100])),  # floor(4 / 3); of the earlier pair nobody hands KV to anybody
        ((2, 2, 1), (2, 2, 1), ([], [])),
        ((2, 3, 1), (2, 2, 1), ([], [])),  # all that serve, while the other half has all that it shall have
        ((2, 3, 1), (2, 3, 1), ([], [])),
        ((4, 2, 3), (2, 1, 0), ([100, 101, 102], [])),  # who is left of an earlier pair, whose other half is gone
        ((2, 0, 2), (2, 1, 0), ([100, 101], [0])),
    ],
)
def test_a_half_serves_as_far_as_the_other_has_counterparts(
    prefill: tuple[int, int, int], decode: tuple[int, int, int], expected: tuple[list[int], list[int]]
) -> None:
    assert alone(prefill, decode) == {Role.Prefill.value: expected[0], Role.Decode.value: expected[1]}


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        ((1, 1, 1), (3, 2, 1), ([], [])),  # alone by rounding: it has counterparts
        ((1, 1, 1), (3, 0, 3), ([0], [])),
        ((2, 0, 2), (2, 1, 0), ([100, 101], [0])),
        ((2, 2, 0), (2, 0, 0), ([], [])),  # no rollout
    ],
)
def test_nobody_reaches_a_replica_whose_pair_has_nobody_in_the_other_half(
    prefill: tuple[int, int, int], decode: tuple[int, int, int], expected: tuple[list[int], list[int]]
) -> None:
    roles = (Role.Prefill, Role.Decode)
    turns = [turn(half(role), *counts) for role, counts in zip(roles, (prefill, decode), strict=True)]
    known = {(role.value, number) for role, numbers in zip(roles, expected, strict=True) for number in numbers}
    assert known == unmatched_in(turns)


def test_an_engine_of_an_earlier_pair_that_does_not_answer_may_still_be_a_counterpart() -> None:
    prefill, decode = turn(half(Role.Prefill), 1, 0, 1), turn(half(Role.Decode), 1, 0, 1)
    (silent,) = decode.survivors.replicas
    down = replace(silent, pods=tuple(replace(pod, ready=False) for pod in silent.pods))
    assert unmatched_in([prefill, replace(decode, survivors=Survivors((down,)))]) == frozenset()


def test_without_an_earlier_pair_nobody_is_alone() -> None:
    """There is nothing that a replica without a counterpart could replace too early."""
    assert alone((4, 4, 0), (2, 0, 0)) == {Role.Prefill.value: [], Role.Decode.value: []}


def test_a_replica_that_has_no_pods_yet_is_of_no_earlier_pair() -> None:
    """It will be rendered for the new one: only what runs is of another."""
    prefill, decode = turn(half(Role.Prefill), 4, 4, 0), turn(half(Role.Decode), 2, 0, 0)
    coming = Survivors((AssignedReplica(Assignment(0, NEW, ("n",), 1, 0.0), ()),))
    assert alone_in([prefill, replace(decode, survivors=coming)]) == frozenset()


def test_behind_a_gateway_all_but_the_generation_that_is_shown_are_alone() -> None:
    turns = []
    for role in (Role.Prefill, Role.Decode):
        record = behind_a_gateway(half(role))
        turns.append(turn(replace(record, shown=OLD), 1, 1, 1))
    assert alone_in(turns) == {(role.value, 0) for role in (Role.Prefill, Role.Decode)}
    shown = [replace(each, planned=replace(each.planned, pool=replace(each.planned.pool, shown=NEW))) for each in turns]
    assert alone_in(shown) == {(role.value, 100) for role in (Role.Prefill, Role.Decode)}
