"""The benchmark of what calibration learns behind a front."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.calibration import MODEL, RULES, TENSOR_PARALLEL, TRUTHS, Case, learnt, rows, serve
from bench.percentiles import replica_of
from weft.domain.hardware import Precision
from weft.twin.serving.front import FrontRule

SHARED = Case(0.5, 4, FrontRule.LeastLoad, 1.0)


@pytest.mark.parametrize("front", FrontRule)
@pytest.mark.parametrize("truth", TRUTHS)
def test_replicas_that_share_a_front_never_pass_for_faster_than_they_are(front: FrontRule, truth: float) -> None:
    """Ten windows are enough for a lone replica's wait to say so."""
    found = dict(zip(RULES, learnt(Case(0.5, 4, front, truth), windows=10), strict=True))
    assert found["lone wait"] < 0.9 * truth
    assert found["any wait"] > 0.95 * min(truth, 1.0)


def test_a_lone_replica_has_the_same_factor_by_either_wait() -> None:
    found = dict(zip(RULES, learnt(Case(0.25, 1, FrontRule.LeastLoad, 1.25), windows=10), strict=True))
    assert found["any wait"] == found["lone wait"]
    assert found["any wait"] > 1.15


def test_what_vllm_counts_leaves_out_the_wait_for_the_running_step() -> None:
    requests = serve(replace(SHARED, replicas=1), 600.0)
    outside = replica_of(MODEL, "H100", Precision.BF16, TENSOR_PARALLEL).efficiency.request_seconds
    hidden = [each.ttft - each.queue - each.prefill - outside for each in requests]
    assert min(hidden) > -1e-6
    assert sum(hidden) > 0.5 * sum(each.waited for each in requests)


def test_the_table_has_a_line_for_each_load_count_and_front() -> None:
    found = {replace(SHARED, truth=truth): (0.711, 1.0, truth, 1.5) for truth in TRUTHS}
    assert list(rows(found))[2:] == [
        "| 50 % | 4 | LeastLoad | 0.71 / 1.00 / 0.80 / 1.50 | 0.71 / 1.00 / 1.00 / 1.50 | 0.71 / 1.00 / 1.25 / 1.50 |"
    ]
