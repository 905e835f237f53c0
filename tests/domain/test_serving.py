"""When a replica serves: the one answer that deciding, converging and metrics share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.control.metrics.pool_gauges import how_many_serve
from weft.domain.cluster import ContainerFailure, PodIdentity, PodPhase, PodRecord
from weft.domain.status import Assignment

PAIR = Assignment(1, "r", ("a", "b"), 8, 0.0)


def pod(rank: int, replica: int = 1) -> PodRecord:
    name = f"chat-{replica}-{rank}"
    identity = PodIdentity("pool", replica, rank, "r")
    return PodRecord("team", name, name, PodPhase.Running, "a", (), identity, ready=True)


def test_a_replica_serves_while_all_its_pods_do() -> None:
    assert PAIR.is_served_by((pod(0), pod(1)))


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"terminating": True},
        {"phase": PodPhase.Failed},
        {"failure": ContainerFailure("Error", "", 1)},
    ],
    ids=["not ready", "about to go", "over", "failed"],
)
def test_one_pod_that_does_not_is_enough(change: dict[str, Any]) -> None:
    assert not PAIR.is_served_by((pod(0), replace(pod(1), **change)))


def test_so_is_one_that_is_missing() -> None:
    assert not PAIR.is_served_by((pod(0),))


def test_replicas_that_leave_are_not_counted() -> None:
    """They serve on until they are idle, and the status counts them no more."""
    crew = (pod(0), pod(1), pod(0, replica=2), pod(1, replica=2))
    assert 1 == how_many_serve((PAIR,), crew)
