"""What `--policy` may name, what each is tuned over, and counts that nobody measures: fixed ones and calendars."""

from __future__ import annotations

from statistics import fmean

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import CAPACITY, pod, view
from weft.domain.capacity import Capacity
from weft.twin import policies
from weft.twin.policies.schedule import ScheduledChange, ScheduleOptions
from weft.twin.policies.static import StaticOptions
from weft.twin.policies.windows import Recent, Timer

HERE = [name for name in policies.NAMES if policies.lacking(name) is None]  # `make predictors` has all of them


@pytest.mark.parametrize("name", policies.NAMES)
def test_every_rule_has_a_default_a_grid_and_a_frontier(name: str) -> None:
    grid, frontier = policies.grid(name), policies.frontier(name)
    assert 6 <= len(grid) <= 16
    assert 6 <= len(frontier) <= 8
    for points in (grid, frontier):
        assert len(points) == len(set(points))
    assert {name} == {options.policy().name for options in (policies.default(name), *grid, *frontier)}
    assert policies.tuned(name)


@pytest.mark.parametrize("name", policies.NAMES)
def test_two_simulations_share_no_memory(name: str) -> None:
    options = policies.default(name)
    assert options.policy() is not options.policy()


@pytest.mark.parametrize("name", HERE)
def test_the_same_looks_get_the_same_answers_within_the_bounds(name: str) -> None:
    def counts() -> list[int]:
        return Fluid(policies.default(name).policy(), lambda now: 20.0 + now / 100.0, most=12).run(3600.0).counts

    once = counts()
    assert once == counts()
    assert 1 <= min(once) <= max(once) <= 12


def busy_hour(options: policies.Options) -> Fluid:
    """An hour at 40 requests/s."""
    return Fluid(options.policy(), lambda _: 40.0).run(3600.0)


@pytest.mark.parametrize("name", ["dynamo", "dynamo-kalman", "heteroscale", "static"])
def test_a_frontier_goes_from_cheap_to_safe(name: str) -> None:
    means = [fmean(busy_hour(options).counts[360:]) for options in policies.frontier(name)]
    assert means == sorted(means)
    assert means[-1] > 1.3 * means[0]


@pytest.mark.parametrize("name", ["hpa", "hpa-kv", "aibrix", "wva", "keda-slo"])
def test_a_rule_that_flaps_queues_less_at_its_safe_end(name: str) -> None:
    cheap, *_, safe = policies.frontier(name)
    queueing = [fmean(backlog > 0 for backlog in busy_hour(options).backlogs[360:]) for options in (cheap, safe)]
    assert queueing[1] < 0.8 * queueing[0]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(KeyError):
        policies.default("weft")


def test_a_fixed_fleet_is_a_part_of_its_peak() -> None:
    pools = (view(pod(), name="named"), view(pod(), name="declared"))
    assert {"named": 8, "declared": 8} == StaticOptions((("named", 10),), part=0.8).policy().counts(0.0, pools)


def test_a_fixed_fleet_that_shares_a_queue_is_counted_in_company() -> None:
    """For 48 of 60 requests/s: eight that serve 6 each, or five that serve 10 together with others."""
    together = Capacity(CAPACITY, (1.0, 1.2, 1.4, 1.6, 10.0 / 6.0))
    assert {"chat": 5} == StaticOptions(part=0.8).policy().counts(0.0, (view(pod(), capacity=together),))


def test_a_fixed_fleet_without_a_part_keeps_what_it_has() -> None:
    pools = (view(pod(), name="named"), view(pod(), name="planned"))
    assert {"named": 10} == StaticOptions((("named", 10),)).policy().counts(0.0, pools)
    assert {} == policies.default("static").policy().counts(0.0, pools)


def test_a_calendar_is_followed_from_when_it_is_first_asked() -> None:
    changes = (
        ScheduledChange(0.0, (("chat", 3),)),
        ScheduledChange(60.0, (("chat", 9), ("other", 2))),
        ScheduledChange(120.0, (("chat", 200),)),
    )
    policy = ScheduleOptions(changes).policy()
    answers = [policy.counts(now, (view(pod()),)) for now in (1000.0, 1059.0, 1060.0, 1125.0)]
    assert [{"chat": 3}, {"chat": 3}, {"chat": 9}, {"chat": 100}] == answers
    assert {} == ScheduleOptions(changes, begin=2000.0).policy().counts(1000.0, (view(pod()),))


def test_a_calendar_goes_forward() -> None:
    with pytest.raises(ValueError, match="in order of time"):
        ScheduleOptions((ScheduledChange(5.0, ()), ScheduledChange(4.0, ())))


def test_a_window_lets_go_of_what_is_exactly_so_old() -> None:
    recent = Recent(60.0)
    recent.add(0.0, 4.0)
    recent.add(59.0, 8.0)
    assert (2, 6.0) == (len(recent), recent.mean)
    recent.forget(60.0)
    assert [8.0] == list(recent)


def test_a_timer_counts_from_when_it_was_late() -> None:
    timer = Timer(30.0)
    assert [True, False, True, False, True] == [timer.due(now) for now in (0.0, 29.0, 35.0, 60.0, 65.0)]
