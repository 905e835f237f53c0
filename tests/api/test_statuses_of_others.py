"""Statuses that this release never writes: of another one, or edited by somebody. None of them stops anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.decisions import DECISIONS
from tests.api.test_parsing import ANY_JSON
from weft.api import parse_pool, parse_split, pool_status
from weft.domain.status import PoolStatus, SplitStatus

if TYPE_CHECKING:
    from weft.domain.decision import PoolDecision

Json = dict[str, Any]

RESOURCE: Json = {"metadata": {"namespace": "team", "name": "chat"}, "spec": {"model": {"id": "acme/model"}}}
NOW = 1782892800.0  # 2026-07-01T08:00:00Z


def _is_planned(decision: PoolDecision) -> bool:
    return decision.status.plan is not None


PLANNED = DECISIONS.filter(_is_planned)


@given(ANY_JSON)
def test_whatever_the_status_is_the_rest_is_read(status: Any) -> None:  # noqa: ANN401 - any JSON
    names = ("engine", "plan", "assignments", "failure", "scale", "observed", "conditions", "revision")
    for any_status in (status, dict.fromkeys(names, status)):
        pool, split = (read(RESOURCE | {"status": any_status}) for read in (parse_pool, parse_split))
        assert isinstance(pool.status, PoolStatus)
        assert isinstance(split.status, SplitStatus)
        assert (pool.key, pool.spec) == (parse_pool(RESOURCE).key, parse_pool(RESOURCE).spec)
        assert (split.key, split.spec) == (parse_split(RESOURCE).key, parse_split(RESOURCE).spec)


@settings(max_examples=25)
@given(PLANNED, st.sampled_from(["ttft", "tpot"]))
def test_a_prediction_without_a_percentile_is_as_if_never_written(decision: PoolDecision, latency: str) -> None:
    """Its schema takes a map of any percentiles, and one bad object stops no other."""
    written = pool_status(decision, {}, NOW)
    del written["plan"]["prediction"][latency]["p95"]
    record = parse_pool({"status": written})
    assert (None, decision.status.assignments) == (record.status.plan, record.status.assignments)


@pytest.mark.parametrize("size", ["tensorParallel", "gpusPerPod", "expertParallel", "decodeContextParallel"])
@settings(max_examples=10)
@given(decision=PLANNED)
def test_a_shape_without_gpus_is_as_if_never_written(size: str, decision: PoolDecision) -> None:
    written = pool_status(decision, {}, NOW)
    written["plan"][size] = 0
    assert parse_pool({"status": written}).status.plan is None


@pytest.mark.parametrize("nothing", [{"nodes": []}, {"gpusPerPod": 0}], ids=["no pods", "no GPUs"])
def test_a_replica_of_nothing_is_as_if_never_written(nothing: Json) -> None:
    """It would count as one that serves, with no pod to be missed. Its id is never used again."""
    replica = {"replica": 4, "revision": "r", "nodes": ["a"], "gpusPerPod": 8, "since": "2026-07-01T08:00:00Z"}
    whole, empty = (
        parse_pool({"status": {"nextReplica": 5, "assignments": [each]}}).status
        for each in (replica, {**replica, **nothing})
    )
    assert (1, 0, 5) == (len(whole.assignments), len(empty.assignments), empty.next_replica)


def test_a_reason_of_a_newer_weft_is_as_if_never_written() -> None:
    """F20: a rollback reads what the newer version wrote."""
    status = {"scale": {"reason": "InventedTomorrow", "message": ""}, "desiredReplicas": 3}
    assert parse_pool({"status": status}).status == PoolStatus(desired_replicas=3)


def test_ids_of_replicas_are_never_handed_out_twice() -> None:
    """Even when the counter is lost."""
    assignment = {"replica": 7, "revision": "a", "nodes": ["n"], "gpusPerPod": 8, "since": "2026-07-01T08:00:00Z"}
    assert parse_pool({"status": {"assignments": [assignment]}}).status.next_replica == 8
