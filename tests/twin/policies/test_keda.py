"""llm-d's rule through KEDA by hand: 33 sequences and 32 prompts in 200 steps take 28.1 ms, 0.937 of the 30 ms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import pod, view
from weft.domain.workload import Role, Slo
from weft.twin.policies.horizontal import Behavior, Pace
from weft.twin.policies.keda import BY_SIZE, GUIDE, KedaOptions

if TYPE_CHECKING:
    from weft.twin.policies.policy import PoolView

NO_LIMITS = Pace(0.0, pods=100)
AT_ONCE = KedaOptions(behavior=Behavior(up=NO_LIMITS, down=NO_LIMITS))


def load(running: float, waiting: float = 0.0, *, count: int = 4, ready: int | None = None) -> PoolView:
    """So many replicas with so many sequences each."""
    seen = [pod(waiting=waiting, running=running, kv=running / 64.0)] * (count if ready is None else ready)
    return view(*seen, count=count)


@pytest.mark.parametrize(
    ("running", "wanted"),
    [(32.0, 14), (8.0, 8), (0.0, 7)],  # 8 x 0.937 / 0.55 = 13.6; 0.497; 8 x 0.35 / 0.40 = 7
    ids=["grows by how much is missing", "holds between the bounds", "shrinks by what is spare"],
)
def test_the_predicted_tpot_is_held_against_the_slo(running: float, wanted: int) -> None:
    assert {"chat": wanted} == AT_ONCE.policy().counts(0.0, (load(running, count=8),))


def test_prefill_goes_by_ttft_and_decode_by_tpot() -> None:
    """The 90th percentile of prompts has 1,479 tokens: 151,479 take 1.51 s, 0.757 of 2 s."""
    queue = [pod(waiting=150.0, running=32.0)] * 4
    assert {"chat": 6} == AT_ONCE.policy().counts(0.0, (view(*queue, role=Role.Prefill),))
    assert {"chat": 11} == AT_ONCE.policy().counts(0.0, (view(*queue, role=Role.Decode),))  # 42 ms of 30


def test_no_sample_says_more_than_twice_the_slo() -> None:
    assert {"chat": 15} == AT_ONCE.policy().counts(0.0, (load(64.0, waiting=2000.0),))  # 4 x 2 / 0.55


def test_a_request_beyond_the_batch_waits_until_another_ends() -> None:
    by_ttft = Slo(ttft=((95, 0.3),))
    room, full = (replace(load(running), slo=by_ttft) for running in (63.0, 64.0))
    assert {"chat": 2} == AT_ONCE.policy().counts(0.0, (room,))
    assert {"chat": 5} == AT_ONCE.policy().counts(0.0, (full,))  # 200 steps of 45.2 ms / 64 more, 0.2 s


def test_percentiles_are_of_a_minute_and_samples_smoothed_over_45_seconds() -> None:
    policy = AT_ONCE.policy()
    answers = [policy.counts(15.0 * look, (load(0.0 if look else 32.0, count=8),))["chat"] for look in range(7)]
    assert [14, 14, 14, 14] == answers[:4]  # the busy quarter of the minute is its 90th percentile
    assert [11, 8, 7] == answers[4:]  # 2/3 of 0.937 and 1/3 of 0.35 is 0.741; then 0.546; then 0.35


def test_an_idle_pool_goes_to_its_minimum() -> None:
    idle = view(*[pod(running=0.0, rate=0.0)] * 8, arriving=0.0)
    assert {"chat": 1} == AT_ONCE.policy().counts(0.0, (idle,))


def test_replicas_that_start_are_credited_when_it_grows() -> None:
    assert {"chat": 11} == AT_ONCE.policy().counts(0.0, (load(32.0, count=8, ready=6),))  # 13.6 x 6 / 8
    assert {"chat": 14} == AT_ONCE.policy().counts(0.0, (load(32.0, count=8),))


def test_the_credit_may_ask_for_fewer_which_the_window_of_the_guide_hides() -> None:
    half = load(32.0, count=8, ready=4)
    assert {"chat": 7} == AT_ONCE.policy().counts(0.0, (half,))
    guide = KedaOptions().policy()
    assert {8} == {guide.counts(15.0 * look, (half,))["chat"] for look in range(12)}


def test_the_tolerance_of_the_hpa_swallows_a_step_of_a_large_pool() -> None:
    seen = load(11.0, count=20)  # 20 x 0.5517 / 0.55: one more is wanted
    assert {"chat": 20} == AT_ONCE.policy().counts(0.0, (seen,))
    assert {"chat": 21} == replace(AT_ONCE, tolerance=0.0).policy().counts(0.0, (seen,))


def test_the_hpa_of_the_guide_grows_by_the_least_of_half_a_minute_and_doubles_at_most() -> None:
    policy = KedaOptions().policy()
    seen = load(64.0, waiting=2000.0, count=10)
    assert [10, 10, 20] == [policy.counts(15.0 * look, (seen,))["chat"] for look in range(3)]  # of 37


@pytest.mark.parametrize(("behavior", "wanted"), [(GUIDE, [40, 39, 38]), (BY_SIZE, [40, 35, 30])])
def test_it_shrinks_after_three_minutes_in_steps_of_two(behavior: Behavior, wanted: list[int]) -> None:
    """Of 40 replicas 35.2 may stay, of 35 then 30.8: Kubernetes cuts off what is not whole."""
    policy, count, counts = KedaOptions(shrink_at=0.5, grow_at=0.6, behavior=behavior).policy(), 40, []
    for look in range(21):
        count = policy.counts(15.0 * look, (load(0.0, count=count),))["chat"]
        counts.append(count)
    assert wanted == [counts[11], counts[12], counts[20]]


def test_engines_that_are_slower_than_modelled_are_predicted_to_be() -> None:
    policy = AT_ONCE.policy()
    seen = view(*[pod(running=32.0, tpot=2 * 0.0276)] * 4)  # 32 sequences and their prompts take 27.6 ms
    answers = [policy.counts(15.0 * look, (seen,))["chat"] for look in range(100)]
    assert (8, 14) == (answers[0], answers[-1])  # 4 x 1.03 / 0.55, after the first look; 4 x 1.873 / 0.55


def test_a_pool_of_which_nothing_was_observed_keeps_its_count() -> None:
    assert {} == AT_ONCE.policy().counts(0.0, (view(pod(), blind=True),))
    assert {} == AT_ONCE.policy().counts(0.0, (view(pod(kv=None)),))


def test_it_settles_in_a_band_above_what_an_idle_engine_takes() -> None:
    raised = KedaOptions(grow_at=0.85, shrink_at=0.70)
    assert 1 == len(set(Fluid(raised.policy(), lambda _: 60.0).run(7200.0).last_counts))


def test_the_band_of_the_guide_asks_for_many_where_an_idle_step_takes_a_third_of_the_slo() -> None:
    fewest = 40.0 / 6.67
    assert 8 * fewest < Fluid(KedaOptions().policy(), lambda _: 40.0).run(7200.0).count
