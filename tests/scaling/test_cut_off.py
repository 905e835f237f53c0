"""Which decode replicas fail to fetch KV, and where siblings that fetch tell that another one would do better."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.yardstick import assert_no_steeper
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation
from weft.domain.workload import Role
from weft.scaling.underperforming.cut_off import failing, fetches_well
from weft.scaling.underperforming.outliers import LONGEST_GAP_SECONDS, wake_after_seconds, watched, worth_a_look

if TYPE_CHECKING:
    from weft.domain.pool_memory import Outliers

CUT_OFF, ALIKE = Reason.CutOffFromPrefill, Reason.TransfersFail
NOW = 1_000_000.0


def pods(*counted: tuple[float | None, float | None]) -> dict[int, PodObservation]:
    """Replicas by (transfers that ended well, transfers that failed)."""
    return {
        index: PodObservation(f"pd-decode-{index}", 2.0, transfers_done=done, transfers_failed=failed)
        for index, (done, failed) in enumerate(counted)
    }


@pytest.mark.parametrize(
    ("counted", "found"),
    [
        (((60, 0), (60, 0)), {}),
        (((45, 15), (60, 0)), {0: (CUT_OFF, 0.25)}),
        (((0, 60), (60, 0)), {0: (CUT_OFF, 1.0)}),
        (((45, 15), (60, 1)), {0: (CUT_OFF, 0.25)}),
        (((45, 15), (30, 30), (60, 0), (60, 0)), {0: (CUT_OFF, 0.25), 1: (CUT_OFF, 0.5)}),
        (((99, 1), (100, 0)), {}),
    ],
    ids=["all well", "one of four prefill engines", "all of them", "a sibling lost one", "two of four", "too little"],
)
def test_who_fails_beside_siblings_that_fetch_is_cut_off(
    counted: tuple[tuple[float, float], ...], found: dict[int, tuple[Reason, float]]
) -> None:
    assert failing(pods(*counted)) == found


@pytest.mark.parametrize(
    "counted",
    [
        ((45, 15),),
        ((45, 15), (45, 15)),
        ((45, 15), (45, 15), (60, 0)),
        ((45, 15), (50, 5)),
        ((45, 15), (5, 0)),
        ((45, 15), (0, 0)),
        ((45, 15), (60, None)),
        ((45, 15), (None, 0)),
        ((45, 15), (float("nan"), 0)),
    ],
    ids=[
        "alone",
        "all",
        "most",
        "a sibling fails too",
        "too few to tell",
        "none",
        "untold",
        "untold well",
        "no number",
    ],
)
def test_without_siblings_that_surely_fetch_nobody_says_that_another_one_would(
    counted: tuple[tuple[float, float], ...],
) -> None:
    found = failing(pods(*counted))
    assert found[0] == (ALIKE, 0.25)
    assert all(why is ALIKE for why, _ in found.values())


def test_an_engine_that_does_not_tell_has_failed_nothing() -> None:
    assert failing(pods((60, None), (None, None), (0, 0))) == {}
    assert not worth_a_look(list(pods((60, None), (60, 0)).values()), Role.Decode)
    assert worth_a_look(list(pods((60, 1), (60, 0)).values()), Role.Decode)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=8))
def test_at_most_half_are_cut_off_and_each_beside_one_that_fetches(counted: list[tuple[int, int]]) -> None:
    every = pods(*counted)
    found = failing(every)
    cut_off = {replica: share for replica, (why, share) in found.items() if why is CUT_OFF}
    assert 2 * len(cut_off) <= sum(done + failed > 0 for done, failed in counted)
    for share in cut_off.values():
        assert any(fetches_well(pod, share) for pod in every.values())


def test_failures_of_another_role_are_not_decodes() -> None:
    assert watched(None, pods((45, 15), (60, 0)), range(2), Role.Prefill, NOW) is None
    assert watched(None, pods((45, 15), (60, 0)), range(2), Role.Decode, NOW) is not None


def test_one_is_named_after_five_minutes_and_cleared_once_it_surely_fetches() -> None:
    memory, bad = None, pods((45, 15), (60, 0))
    for second in range(0, 301, 10):
        assert memory is None or not memory.named
        memory = watched(memory, bad, range(2), Role.Decode, NOW + second)
    assert memory is not None
    assert [(each.replica, each.why) for each in memory.named] == [(0, CUT_OFF)]
    for few in (pods((5, 0), (60, 0)), pods((40, 5), (60, 0)), {1: bad[1]}):
        assert (known := watched(memory, few, range(2), Role.Decode, NOW + 310)) is not None
        assert known.named, "too few transfers, fewer failures, and a pod that is not seen clear nobody"
    assert watched(memory, pods((60, 0), (60, 0)), range(2), Role.Decode, NOW + 310) is None
    assert watched(memory, {1: bad[1]}, {1}, Role.Decode, NOW + 310) is None


class TestLittleTraffic:
    """Of twenty transfers in a window a quarter was named: three that would have failed never come together."""

    FAILS, FETCHES = pods((15, 5), (20, 5)), pods((10, 0), (10, 0))

    def named(self) -> Outliers:
        memory = None
        for second in range(0, 301, 10):
            memory = watched(memory, self.FAILS, range(2), Role.Decode, NOW + second)
        assert memory is not None
        assert [(each.replica, each.why) for each in memory.named] == [(0, ALIKE), (1, ALIKE)]
        return memory

    def after(self, looks: list[dict[int, PodObservation] | None]) -> Outliers | None:
        memory: Outliers | None = self.named()
        for number, seen in enumerate(looks, 31):
            memory = watched(memory, seen, range(2), Role.Decode, NOW + 10.0 * number)
        return memory

    def test_is_cleared_after_as_long_as_it_took_to_be_named(self) -> None:
        assert self.after([self.FETCHES] * 30) is not None
        assert self.after([self.FETCHES] * 31) is None

    @pytest.mark.parametrize(
        "between", [pods((9, 1), (9, 1)), pods((0, 0), (0, 0)), pods((None, 0), (10, None)), {}, None]
    )
    def test_that_is_not_seen_to_fetch_all_the_while_clears_nobody(
        self, between: dict[int, PodObservation] | None
    ) -> None:
        memory = self.after([*[self.FETCHES] * 20, between, *[self.FETCHES] * 30])
        assert memory is not None
        assert [each.replica for each in memory.named] == [0, 1]
        assert self.after([*[self.FETCHES] * 20, between, *[self.FETCHES] * 31]) is None

    def test_wakes_when_time_alone_clears(self) -> None:
        memory = self.after([self.FETCHES])
        assert wake_after_seconds(memory, NOW + 310) == 300.0


def test_a_network_that_was_down_for_all_is_no_time_of_being_cut_off() -> None:
    """Who comes back first says nothing yet of who comes back a minute later."""
    memory = None
    for second in range(0, 601, 10):
        memory = watched(memory, pods((0, 60), (0, 60)), range(2), Role.Decode, NOW + second)
    memory = watched(memory, pods((0, 60), (60, 0)), range(2), Role.Decode, NOW + 610)
    assert memory is not None
    assert {each.why for each in memory.named} == {ALIKE}
    assert [each.since for each in memory.found if each.why is CUT_OFF] == [NOW + 610]


@pytest.mark.parametrize(
    ("first", "then", "named"),
    [
        (pods((45, 15), (60, 0)), pods((45, 15), (45, 15)), [(0, CUT_OFF, ALIKE), (1, None, ALIKE)]),
        (pods((45, 15), (45, 15)), pods((45, 15), (60, 0)), [(0, ALIKE, CUT_OFF)]),
    ],
    ids=["its siblings fail, too, by now", "its siblings fetch by now"],
)
def test_one_reason_follows_the_other_once_it_is_named(
    first: dict[int, PodObservation],
    then: dict[int, PodObservation],
    named: list[tuple[int, Reason | None, Reason]],
) -> None:
    """A replica is told to be cut off, or to fail as all do, and not as both."""
    memory = None
    for second in range(0, 301, 10):
        memory = watched(memory, first, range(2), Role.Decode, NOW + second)
    for second in range(310, 601, 10):
        memory = watched(memory, then, range(2), Role.Decode, NOW + second)
    assert memory is not None
    assert {(each.replica, each.why) for each in memory.named} == {(one, why) for one, why, _ in named if why}
    memory = watched(memory, then, range(2), Role.Decode, NOW + 610)
    assert memory is not None
    assert [(each.replica, each.why) for each in memory.named] == [(one, why) for one, _, why in named]
    assert not any(each.told for each in memory.named), "an event says the new one"


@pytest.mark.parametrize(("apart", "named"), [(LONGEST_GAP_SECONDS, [0]), (LONGEST_GAP_SECONDS + 1.0, [])])
def test_nobody_knows_what_was_between_two_looks_far_apart(apart: float, named: list[int]) -> None:
    memory, every = None, pods((45, 15), (60, 0))
    for look in range(6):
        memory = watched(memory, every, range(2), Role.Decode, NOW + look * apart)
    assert memory is not None
    assert [each.replica for each in memory.named] == named


def test_a_pod_that_is_slow_too_is_told_as_both() -> None:
    fast = PodObservation("x", 2.0, requests_per_second=2.0, input_tokens=1000.0, output_tokens=200.0, tpot_mean=0.02)
    every = {
        index: replace(fast, pod=f"pd-decode-{index}", transfers_done=60.0, transfers_failed=0.0) for index in range(4)
    }
    every[2] = replace(every[2], tpot_mean=0.05, transfers_done=45.0, transfers_failed=15.0)
    memory = watched(None, every, range(4), Role.Decode, NOW)
    assert memory is not None
    assert [(each.replica, each.why) for each in memory.found] == [(2, CUT_OFF), (2, Reason.SlowerThanSiblings)]


def test_where_all_fail_looking_at_them_grows_with_their_number() -> None:
    """No sibling does well then, so that nobody can stop at the first one that does."""
    few, many = (pods(*[(45, 15)] * count) for count in (200, 2_000))

    assert_no_steeper(repeat(partial(failing, few)), repeat(partial(failing, many)), 30)
