"""Demand is read where it arrives: a full queue or a dead pool does not look like no demand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.observe.pages import APART_SECONDS, pages, scraped, target
from weft.domain.cluster import PodPhase, PodRecord
from weft.domain.shape import EngineName
from weft.domain.snapshot import STALE_SECONDS, PoolRecord, ResourceKey
from weft.domain.status import PoolStatus
from weft.engines import FRONTS, series_for
from weft.observe.samples.history import History
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.targets import fronts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PoolObservation
    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.history import SeriesKey
    from weft.observe.samples.scrape_target import Target

SERIES = series_for(EngineName.VLLM, "0.32.0")
POOL = PoolRecord(ResourceKey("InferencePool", "team", "chat", "pool"), 1, None, PoolStatus())
ROUTER = PodRecord(
    *("team", "chat-front-1", "f", PodPhase.Running, "node-1", ()), ready=True, ip="10.0.0.9", front_of="pool"
)


def front(uid: str = "f") -> Target:
    return fronts_of(POOL, [replace(ROUTER, uid=uid)])[0]


async def observed(texts: Mapping[str, tuple[str, ...]], fronts: tuple[Target, ...]) -> PoolObservation:
    """A pool of the engine `a` behind these fronts."""
    engines = (target(SERIES),)
    return observe_pool(engines, await scraped((*engines, *fronts), texts), fronts)


@pytest.mark.parametrize(
    ("folder", "arrived"),
    [
        ("vllm-router-0.1.17", 22),
        ("vllm-router-0.1.17-dead", 2),  # 6 tries, 4 of them retries
        ("vllm-router-0.1.17-none", 3),  # 15 tries that found no worker, 12 of them retries
        ("vllm-router-0.1.17-pairs", 4),  # one of which failed
    ],
)
async def test_a_router_counts_what_arrives_whatever_becomes_of_it(folder: str, arrived: float) -> None:
    before, after = pages(folder)
    seen = await observed({"a": ("", "", ""), "f": (before, before, after)}, (front(),))
    assert (seen.arrivals, seen.arrival_seconds, seen.arrivals_at_front) == (arrived, APART_SECONDS, True)
    assert (seen.answered, seen.complete) == (0, False)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ('smg_http_requests_total{method="POST",path="/v1/chat/completions"}', 'smg_http_requests_total{method="GET"}'),
        ('sgl_router_requests_total{route="/v1/chat/completions"}', "sgl_router_retries_total"),
        ('inference_objective_request_total{model_name="m",target_model_name="m"}', "inference_objective_errors"),
        ('inference_model_request_total{target_model_name="m",model_name="m"}', "inference_model_errors"),
        ('llm_d_epp_request_total{model_name="m"}', "llm_d_epp_request_error_total"),
    ],
)
async def test_other_fronts_count_in_their_own_words(line: str, other: str) -> None:
    texts = (f"{line} 100\n{other} 5\n", f"{line} 190\n{other} 77\n")
    seen = await observed({"a": ("", ""), "f": texts}, (front(),))
    assert seen.arrivals == 90


async def test_fronts_share_the_requests() -> None:
    texts = pages("vllm-router-0.1.17")
    seen = await observed({"a": ("", ""), "f": texts, "g": texts}, (front(), front("g")))
    assert seen.arrivals == 44


async def test_two_fronts_of_two_engines_count_each_in_its_own_words() -> None:
    """While a pool goes from one to the other: neither half of what arrives is lost, nor counted twice."""
    other = tuple(f'smg_http_requests_total{{method="POST"}} {count}\n' for count in (100, 190))
    texts = {"a": ("", ""), "f": pages("vllm-router-0.1.17"), "g": other}
    seen = await observed(texts, (front(), front("g")))
    assert (seen.arrivals, seen.arrivals_at_front) == (22 + 90, True)


async def test_without_every_front_the_engines_say_what_arrives() -> None:
    """A part of the fronts would look like less demand than there is."""
    texts = {"a": pages("vllm-0.32.0"), "f": pages("vllm-router-0.1.17"), "g": ("", "")}
    seen = await observed(texts, (front(), front("g")))
    assert (seen.arrivals, seen.arrivals_at_front) == (22, False)  # 16 answered, 6 more inside


@pytest.mark.parametrize(("beyond", "at_front"), [(0.0, True), (1.0, False)])
async def test_a_front_that_fell_silent_tells_nothing_of_now(beyond: float, at_front: bool) -> None:  # noqa: FBT001
    """What it counted before would be demand for ever, or none: engines say then what arrives."""
    engine = target(SERIES)
    texts = {"a": pages("vllm-0.32.0"), "f": pages("vllm-router-0.1.17")}
    histories = await scraped((engine, front()), texts)
    told = histories["f"]
    silent = replace(told, now=told.now - told.age_seconds + STALE_SECONDS + beyond)
    seen = observe_pool((engine,), {**histories, "f": silent}, (front(),))
    assert (seen.arrivals, seen.arrivals_at_front) == (22, at_front)


async def test_a_restarted_front_counts_from_zero() -> None:
    name = 'sgl_router_requests_total{route="/v1/completions"}'
    seen = await observed({"a": ("", ""), "f": (f"{name} 5000\n", f"{name} 12\n")}, (front(),))
    assert seen.arrivals == 12


@pytest.mark.parametrize("missing", range(13))
def test_a_series_that_one_page_lacks_was_not_born_after_it(missing: int) -> None:
    """Two routes of two and one requests a second; a torn page hides one of them, whose million is no arrival."""
    name = "sgl_router_requests_total"
    pages = [(5.0 * number, 1e6 + 10.0 * number, 5e6 + 5.0 * number) for number in range(13)]
    shown: dict[SeriesKey, tuple[Sample, ...]] = {
        (name, (("route", "/v1/completions"),)): tuple((at, one) for at, one, _ in pages),
        (name, (("route", "/v1/responses"),)): tuple((at, other) for at, _, other in pages if at != 5.0 * missing),
    }
    seen = observe_pool((), {"f": History(60.0, shown)}, (front(),))
    assert seen.arrivals == pytest.approx(30, abs=15)


@pytest.mark.parametrize(("shown_from", "arrived"), [(0, 30), (1, 25), (2, 5e4 + 30)])
def test_a_series_that_only_the_first_page_lacks_was_there_before(shown_from: int, arrived: float) -> None:
    """Three pages after a start: if one is torn, the thousands that the next one shows is no arrival."""
    name = "sgl_router_requests_total"
    pages = [(5.0 * number, 1e6 + 10.0 * number, 5e4 + 5.0 * number) for number in range(3)]
    shown: dict[SeriesKey, tuple[Sample, ...]] = {
        (name, (("route", "/v1/completions"),)): tuple((at, one) for at, one, _ in pages),
        (name, (("route", "/v1/responses"),)): tuple((at, other) for at, _, other in pages[shown_from:]),
    }
    seen = observe_pool((), {"f": History(10.0, shown)}, (front(),))
    assert seen.arrivals == pytest.approx(arrived)


def test_two_pages_of_which_the_first_is_torn_buy_nothing() -> None:
    name = "sgl_router_requests_total"
    shown: dict[SeriesKey, tuple[Sample, ...]] = {
        (name, (("route", "/v1/completions"),)): ((0.0, 1e6), (5.0, 1e6 + 10.0)),
        (name, (("route", "/v1/responses"),)): ((5.0, 5e4),),
    }
    seen = observe_pool((), {"f": History(5.0, shown)}, (front(),))
    assert (seen.arrivals, seen.arrival_seconds) == (10, 5)


def test_a_series_that_appears_has_counted_from_zero() -> None:
    name = "sgl_router_requests_total"
    shown: dict[SeriesKey, tuple[Sample, ...]] = {
        (name, (("route", "/v1/completions"),)): tuple((5.0 * number, 0.0) for number in range(13)),
        (name, (("route", "/v1/responses"),)): ((55.0, 7.0), (60.0, 9.0)),
    }
    seen = observe_pool((), {"f": History(60.0, shown)}, (front(),))
    assert seen.arrivals == 9


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 1),
        ({"front_of": "another"}, 0),
        ({"front_of": None}, 0),
        ({"namespace": "others"}, 0),  # a label is easily written
        ({"ready": False}, 0),
        ({"terminating": True}, 0),
        ({"ip": None}, 0),
    ],
)
def test_only_ready_routers_of_the_pool_are_asked(changes: dict[str, object], count: int) -> None:
    found = fronts_of(POOL, [replace(ROUTER, **changes)])  # type: ignore[arg-type]
    assert len(found) == count
    assert all((one.port, one.names) == (29000, FRONTS.names) for one in found)


def test_the_front_of_a_split_is_the_front_of_both_halves() -> None:
    half = replace(POOL, split_uid="split")
    assert fronts_of(half, [replace(ROUTER, front_of="split")])


async def test_a_front_is_heard_while_no_engine_answers() -> None:
    """A pool without any ready replica as well."""
    routers = {"f": pages("vllm-router-0.1.17")}
    silent = await observed({**routers, "a": ("", "")}, (front(),))
    assert (silent.expected, silent.answered, silent.requests_per_second) == (1, 0, None)
    empty = observe_pool((), await scraped((front(),), routers), (front(),))
    assert (empty.expected, empty.answered) == (0, 0)
    for seen in (silent, empty):
        assert (seen.arrivals, seen.arrival_seconds, seen.arrivals_at_front) == (22, APART_SECONDS, True)


@pytest.mark.parametrize("counts", [(5000, 900, 5030, 930, 5060), (5000, 5030, 5060, 5090, 1e9)])
async def test_a_count_that_no_front_can_have_is_left_for_what_engines_tell(counts: tuple[float, ...]) -> None:
    """Several processes that answer scrapes in turn, and a leap: both were thousands of requests a second."""
    told = tuple(f'llm_d_epp_request_total{{model_name="m"}} {count}\n' for count in counts)
    first, second = pages("vllm-0.32.0")
    seen = await observed({"a": (first, first, first, first, second), "f": told}, (front(),))
    assert not seen.arrivals_at_front
    assert (seen.arrivals or 0.0) < 100


async def test_a_front_that_started_anew_counts_from_zero() -> None:
    told = tuple(f'llm_d_epp_request_total{{model_name="m"}} {count}\n' for count in (5000, 5030, 40, 70, 100))
    seen = await observed({"a": ("",) * 5, "f": told}, (front(),))
    assert (seen.arrivals, seen.arrivals_at_front) == (30, True)
