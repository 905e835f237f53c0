"""A drain is cut to what the notice of its node leaves: engines finish what they can, and are told before the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.converge.test_leaving import BUSY, IDLE, START, Going, deletes, one_pod
from tests.fabric.cluster import taint
from weft.converge.draining import IDLE_GRACE_SECONDS
from weft.domain.spec import RolloutSpec
from weft.domain.workload import Role
from weft.engines import MARGIN_SECONDS, still_chosen_seconds

if TYPE_CHECKING:
    from weft.domain.cluster import Taint

AWS = taint("aws-node-termination-handler/spot-itn")
LONG = 300.0


def going(notice: Taint, *labels: tuple[str, str], role: Role = Role.Aggregated, idle: bool | None = BUSY) -> Going:
    """A replica whose requests may take five minutes, on a node that goes."""
    record = one_pod(role)
    assert record.spec is not None
    patient = replace(record.spec, rollout=RolloutSpec(drain_timeout_seconds=LONG))
    found = Going(replace(record, spec=patient), idle=idle)
    found.world.nodes = tuple(
        replace(node, taints=(notice,), labels=(*node.labels, *labels)) for node in found.world.nodes
    )
    return found


def needed(role: Role = Role.Aggregated) -> int:
    """Seconds before the end at which pods are deleted, so that their engine hears of it."""
    return still_chosen_seconds(role) + MARGIN_SECONDS


@pytest.mark.parametrize("role", [Role.Aggregated, Role.Decode])
def test_a_busy_engine_on_a_spot_node_of_aws_is_told_before_its_two_minutes_are_over(role: Role) -> None:
    spot = going(AWS, role=role)
    assert 1 == len(spot.after(0))
    assert [] == spot.after(120 - needed(role) - 1)
    assert [needed(role)] == deletes(spot.after(120 - needed(role)))


def test_a_spot_node_of_gke_leaves_its_pods_25_seconds() -> None:
    spot = going(taint("cloud.google.com/impending-node-termination"), ("cloud.google.com/gke-spot", "true"))
    spot.after(0)
    assert [] == spot.after(14)
    assert [needed()] == deletes(spot.after(15))


def test_where_the_notice_is_dated_that_counts_and_not_when_the_drain_began() -> None:
    spot = going(taint("ToBeDeletedByClusterAutoscaler", str(int(START) - 500)))
    spot.after(0)
    assert [] == spot.after(100 - needed() - 1)
    assert [needed()] == deletes(spot.after(100 - needed()))


def test_a_notice_that_does_not_say_when_it_came_counts_from_when_the_node_was_tainted() -> None:
    """The last one that served stayed in its front for a minute of it."""
    spot = going(AWS)
    spot.world.nodes = tuple(replace(node, tainted=START - 60) for node in spot.world.nodes)
    spot.after(0)
    assert [] == spot.after(60 - needed() - 1)
    assert [needed()] == deletes(spot.after(60 - needed()))


def test_a_notice_longer_than_the_drain_does_not_lengthen_it() -> None:
    spot = going(taint("cloud.google.com/impending-node-termination"))
    spot.after(0)
    assert [] == spot.after(LONG)
    assert [IDLE_GRACE_SECONDS] == deletes(spot.after(LONG + still_chosen_seconds(Role.Aggregated)))


def test_an_engine_that_is_idle_goes_at_once_as_anywhere() -> None:
    spot = going(AWS)
    spot.after(0)
    assert [IDLE_GRACE_SECONDS] == deletes(spot.after(30, idle=IDLE))


def test_an_engine_that_tells_nothing_gets_the_time_that_is_left_to_end() -> None:
    """Without a notice its pods say themselves how long they take."""
    assert [120] == deletes(going(AWS, idle=None).after(0))
    assert [None] == deletes(Going(one_pod(), idle=None).after(0))


def test_a_notice_that_is_over_still_lets_the_kubelet_end_the_pods() -> None:
    """None at all would forget them, with their GPUs, before they have ended."""
    spot = going(taint("ToBeDeletedByClusterAutoscaler", str(int(START) - 900)))
    assert [1] == deletes([*spot.after(0), *spot.after(1)])


def test_converging_comes_back_when_the_time_is_over() -> None:
    spot = going(AWS)
    spot.after(0)
    spot.after(10)
    again = spot.world.look(spot.record).again_seconds
    assert again == 120 - needed() - 10
