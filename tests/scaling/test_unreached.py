"""Which prefill replica is the one that no decode replica can fetch from, and when nobody can say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation
from weft.domain.workload import Role
from weft.scaling.underperforming.cut_off import all_fail, as_handed_over, unreached
from weft.scaling.underperforming.outliers import watched, worth_a_look

NOW = 1_000_000.0
Counted = tuple[float | None, float | None]


def prefill(*counted: Counted, ranks: int = 1, fail: bool | None = True) -> dict[int, PodObservation]:
    """Replicas by (prompts that were computed, KV that expired, once for each rank), while decode fails or not."""
    return {
        index: as_handed_over(
            PodObservation(f"pd-prefill-{index}", 2.0, requests_done=done, kv_expired=expired), ranks, fail=fail
        )
        for index, (done, expired) in enumerate(counted)
    }


def decode(*counted: Counted) -> dict[int, PodObservation]:
    """Replicas by (transfers that ended well, transfers that failed)."""
    return {
        index: PodObservation(f"pd-decode-{index}", 2.0, transfers_done=done, transfers_failed=failed)
        for index, (done, failed) in enumerate(counted)
    }


@pytest.mark.parametrize(
    ("counted", "ranks", "found"),
    [
        (((60, 0), (60, 0)), 1, {}),
        (((60, 60), (60, 0)), 1, {0: 1.0}),
        (((60, 45), (60, 3)), 1, {0: 0.75}),
        (((60, 240), (60, 0)), 4, {0: 1.0}),
        (((60, 60), (60, 0)), 4, {}),
        (((60, 60), (60, 60), (60, 0), (60, 0)), 1, {0: 1.0, 1: 1.0}),
        (((60, 130), (60, 0)), 1, {0: 1.0}),
    ],
    ids=["all well", "one", "clients go away, too", "by rank", "a quarter", "two of four", "those of before as well"],
)
def test_most_of_its_kv_expires_beside_a_sibling_whose_kv_is_fetched(
    counted: tuple[Counted, ...], ranks: int, found: dict[int, float]
) -> None:
    said = {replica: (Reason.CutOffFromDecode, share) for replica, share in found.items()}
    assert unreached(prefill(*counted, ranks=ranks)) == said


@pytest.mark.parametrize(
    "counted",
    [
        ((60, 60),),
        ((60, 60), (60, 60)),
        ((60, 60), (60, 60), (60, 0)),
        ((60, 25), (60, 0)),
        ((60, 45), (60, 6)),
        ((60, 60), (2, 0)),
        ((60, 60), (0, 0)),
        ((60, 60), (60, None)),
        ((60, 60), (None, 0)),
        ((60, float("nan")), (60, 0)),
    ],
    ids=[
        "alone",
        "all",
        "most",
        "fewer than half",
        "a sibling's expires, too",
        "too few at the sibling",
        "none at the sibling",
        "a sibling does not tell",
        "a sibling tells no requests",
        "no number",
    ],
)
def test_without_a_sibling_whose_kv_is_surely_fetched_nobody_is_to_blame(counted: tuple[Counted, ...]) -> None:
    assert unreached(prefill(*counted)) == {}


@pytest.mark.parametrize("fail", [False, None])
def test_what_expires_while_decode_fetches_is_of_clients_that_went_away(fail: bool | None) -> None:  # noqa: FBT001
    """Also where all of them keep to one replica: decode fails to fetch nothing then."""
    assert unreached(prefill((60, 60), (60, 0), fail=fail)) == {}


@pytest.mark.parametrize(
    ("counted", "fail"),
    [
        (((45, 15),), True),
        (((45, 15), (40, 20)), True),
        (((45, 15), (0, 0)), True),
        (((60, 0), (60, 0)), False),
        (((60, 0), (60, 1)), False),
        (((45, 15), (60, 0)), None),
        (((45, 15), (40, 20), (45, 15), (60, 0)), True),
        (((45, 15), (40, 20), (60, 0), (60, 0)), None),
        (((60, 0), (None, None)), None),
        ((), None),
    ],
    ids=[
        "alone",
        "all",
        "one fetches nothing",
        "none",
        "hardly",
        "one is cut off",
        "three of four",
        "two of four",
        "untold",
        "nobody",
    ],
)
def test_decode_fails_where_none_of_them_is_to_blame(counted: tuple[Counted, ...], fail: bool | None) -> None:  # noqa: FBT001
    assert all_fail(decode(*counted)) is fail


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 900)), max_size=8), st.integers(1, 8))
def test_never_more_than_half_and_none_without_a_sibling_that_does_well(
    counted: list[tuple[int, int]], ranks: int
) -> None:
    every = prefill(*counted, ranks=ranks)
    found = unreached(every)
    assert 2 * len(found) <= sum(done > 0 for done, _ in counted)
    for replica, (_, share) in found.items():
        assert share >= 0.5
        assert any(
            index != replica and done * share >= 3 - 1e-9 and expired <= 0.1 * share * done * ranks + 1e-9
            for index, (done, expired) in enumerate(counted)
        )


def test_one_is_named_after_five_minutes_and_cleared_once_its_kv_is_fetched_or_decode_fetches_all() -> None:
    memory, bad = None, prefill((60, 60), (60, 0))
    for second in range(0, 301, 10):
        assert memory is None or not memory.named
        memory = watched(memory, bad, range(2), Role.Prefill, NOW + second)
    assert memory is not None
    assert [(each.replica, each.why) for each in memory.named] == [(0, Reason.CutOffFromDecode)]
    for unclear in (prefill((60, 40), (60, 0)), prefill((60, 60), (60, 0), fail=None), {1: bad[1]}):
        assert (known := watched(memory, unclear, range(2), Role.Prefill, NOW + 310)) is not None
        assert known.named
    assert watched(memory, prefill((60, 3), (60, 0)), range(2), Role.Prefill, NOW + 310) is None
    assert watched(memory, prefill((60, 60), (60, 0), fail=False), range(2), Role.Prefill, NOW + 310) is None
    assert watched(memory, {1: bad[1]}, {1}, Role.Prefill, NOW + 310) is None


def test_five_minutes_in_which_less_than_half_expires_clear_it_with_little_traffic() -> None:
    memory, few = None, prefill((4, 1), (60, 0))
    for second in range(0, 301, 10):
        memory = watched(memory, prefill((60, 60), (60, 0)), range(2), Role.Prefill, NOW + second)
    for second in range(310, 610, 10):
        memory = watched(memory, few, range(2), Role.Prefill, NOW + second)
        assert memory is not None
        assert memory.named
    assert watched(memory, few, range(2), Role.Prefill, NOW + 610) is None


@pytest.mark.parametrize(
    ("counted", "worth"),
    [((60.0, 0.0), False), ((60.0, 29.0), False), ((60.0, 30.0), True), ((0.0, 0.0), False), ((None, 30.0), False)],
)
def test_prefill_is_looked_at_where_much_of_its_kv_expires(counted: Counted, worth: bool) -> None:  # noqa: FBT001
    """Whoever goes away now and then is no reason to look at all replicas of both halves in each pass."""
    quiet = PodObservation("pd-prefill-0", 2.0, requests_done=60.0, kv_expired=0.0)
    losing = PodObservation("pd-prefill-1", 2.0, requests_done=counted[0], kv_expired=counted[1])
    assert worth_a_look([quiet, losing], Role.Prefill) is worth
    assert not worth_a_look([quiet, losing], Role.Decode)
