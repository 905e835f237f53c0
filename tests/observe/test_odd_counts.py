"""Counts that cannot be: their pod tells no demand, siblings do, and a caveat says so. Rules: S4, S5, F19."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.observe.pages import said, target
from tests.observe.telling import page
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.snapshot import PoolObservation
    from weft.engines import EngineSeries

SERIES = series_for(EngineName.VLLM, "0.33.0")
APART_SECONDS = 10.0
RESTLESS, STUCK = "finished requests jumps back and forth", "its metrics do not change"


def seen(*engines: Iterable[str], series: EngineSeries = SERIES) -> PoolObservation:
    """A pool whose engines showed these pages, one after the other."""
    now = [0.0]
    source, pods = DirectSource(clock=lambda: now[0]), [target(series, str(at)) for at, _ in enumerate(engines)]
    for step, texts in enumerate(zip(*engines, strict=True)):
        now[0] = step * APART_SECONDS
        for pod, text in zip(pods, texts, strict=True):
            source.remember(pod.uid, parse(text, series.names))
    return observe_pool(pods, source.windows())


def counting(*finished: float) -> list[str]:
    return [page(each) for each in finished]


SANE = (1000, 1050, 1100, 1150, 1200, 1250)


class TestAnswers:
    @pytest.mark.parametrize(
        "finished",
        [
            (1000, 300, 1100, 305, 1200, 310),
            (1000, 1050, 0, 1150, 1200, 1250),
            (1000, 1050, 1e9, 1150, 1200, 1250),
            (1e9, 1050, 1100, 1150, 1200, 1250),
            (1000, 1050, 1100, 1150, 1200, 1e9),
        ],
        ids=["processes in turn", "a dip", "a leap", "after a leap", "before it ends"],
    )
    def test_that_cannot_be_are_no_demand_and_those_of_a_sibling_are(self, finished: Sequence[float]) -> None:
        """Each of them was hundreds of replicas' worth of requests, or so many that nothing else counted."""
        told = seen(counting(*finished), counting(*SANE))
        assert any(RESTLESS in sentence for sentence in said(told))
        assert (told.expected, told.answered, told.complete) == (2, 1, False)
        assert told.requests_per_second == pytest.approx(5.0)

    @pytest.mark.parametrize(
        ("finished", "answered"),
        [
            ((1000, 1050, 1100, 40, 90, 140), 100 + 140),
            ((8, 16, 24, 8, 16, 24), 16 + 24),
            ((10, 10, 0, 0, 9, 9), 9),
        ],
        ids=["a restart", "of a new engine", "of one with few"],
    )
    def test_of_an_engine_that_started_anew_are_believed(self, finished: Sequence[float], answered: float) -> None:
        told = seen(counting(*finished))
        assert told.requests_per_second == pytest.approx(answered / 50)
        assert not any(RESTLESS in sentence for sentence in said(told))

    def test_of_which_none_can_be_believed_are_missing(self) -> None:
        told = seen(counting(1000, 300, 1100, 305, 1200, 310))
        assert (told.answered, told.requests_per_second) == (0, None)
        assert any(RESTLESS in sentence for sentence in said(told))


class TestInside:
    def test_more_than_a_replica_can_hold_are_not_counted(self) -> None:
        crowded = [page(each, inside=1e9) for each in SANE]
        told = seen(crowded, counting(*SANE))
        assert told.running == 3
        assert told.arrivals == pytest.approx(10 * 10)
        assert [each.running for each in told.pods] == [None, 3]
        assert any("more requests in progress than a replica can hold" in sentence for sentence in said(told))

    def test_while_nothing_moves_an_engine_hangs_or_its_page_is_an_old_one(self) -> None:
        """Its requests are not over: a pool that took them for no demand would shrink with all of them inside."""
        told = seen(counting(*[1000] * 6), counting(*SANE))
        assert (told.answered, told.complete) == (1, False)
        assert any(STUCK in sentence for sentence in said(told))

    @pytest.mark.parametrize("inside", [[0] * 6, [3, 3, 3, 3, 3, 2]], ids=["idle", "one is over"])
    def test_who_has_nothing_to_do_or_goes_on_does_not_hang(self, inside: Sequence[float]) -> None:
        told = seen([page(1000, inside=each) for each in inside])
        assert (told.answered, told.requests_per_second) == (1, 0.0)
        assert not any(STUCK in sentence for sentence in said(told))

    def test_an_engine_whose_gauges_are_of_its_last_batch_does_not_hang(self) -> None:
        """TensorRT-LLM may show a request for as long as no batch follows: such a pool would never shrink."""
        series = series_for(EngineName.TensorRTLLM, "1.3.0")
        assert not series.settles_when_idle
        texts = [page(1000).replace("vllm:num_requests_running", str(series.running)) for _ in range(6)]
        texts = [text.replace("vllm:request_success_total", series.finished) for text in texts]
        told = seen(texts, series=series)
        assert (told.answered, told.requests_per_second, told.running) == (1, 0.0, 3)

    def test_before_they_were_seen_for_long_nobody_knows(self) -> None:
        assert seen(counting(*[1000] * 4)).answered == 1


class TestLengths:
    """Prompts that look short make work look small: the pool would shrink."""

    @pytest.mark.parametrize(
        "tokens",
        [
            [0.0] * 6,
            [1000.0 * each for each in SANE[:3]] + [0.0] * 3,
            [300.0 * each for each in SANE],
            [1e5 * each for each in SANE],
            [1000.0 * each for each in SANE[:5]] + [1e300],
        ],
        ids=["none", "a sum that starts anew alone", "less than their bucket", "more", "no number in the end"],
    )
    def test_that_cannot_be_are_not_measured(self, tokens: Sequence[float]) -> None:
        told = seen([page(each, tokens=sum_) for each, sum_ in zip(SANE, tokens, strict=True)])
        assert (told.input_tokens, told.input_tokens_p95) == (None, None)
        assert told.requests_per_second == pytest.approx(5.0)
        assert any("mean prompt length is not a number or contradicts" in sentence for sentence in said(told))

    def test_of_a_sibling_are(self) -> None:
        odd = [page(each, tokens=0.0) for each in SANE]
        assert seen(odd, counting(*SANE)).input_tokens == pytest.approx(1000)

    @pytest.mark.parametrize("looks", [(0,), (5,), (0, 1, 2), (4, 5)])
    @pytest.mark.parametrize("part", ["sum", "count"])
    def test_of_pages_that_were_cut_off_are_over_the_time_for_which_sum_and_count_are_told(
        self, looks: Sequence[int], part: str
    ) -> None:
        """With the sum of one look more prompts were a fifth longer, and with its count a fifth shorter."""
        texts = counting(*SANE)
        lacking = [text.replace(f"vllm:request_prompt_tokens_{part}{{", "other{") for text in texts]
        told = seen([lacking[look] if look in looks else text for look, text in enumerate(texts)])
        assert told.input_tokens is None or told.input_tokens == pytest.approx(1000)

    def test_of_an_engine_that_started_anew_are_measured(self) -> None:
        assert seen(counting(1000, 1050, 1100, 40, 90, 140)).input_tokens == pytest.approx(1000)

    def test_are_not_judged_by_buckets_that_count_few(self) -> None:
        told = seen([page(each, counted=0, tokens=0.0) for each in SANE])
        assert not any("contradicts its buckets" in sentence for sentence in said(told))


def test_a_replica_that_lacks_what_scaling_needs_is_told_though_its_siblings_do_not() -> None:
    odd = [text.replace("request_success_total{", "other{") for text in counting(*SANE)]
    told = seen(odd, counting(*SANE))
    assert told.missing == ("vllm:request_success_total",)
    assert told.answered == 1


def test_a_number_beyond_all_counting_is_none() -> None:
    told = seen([page(each, inside=value) for each, value in zip(SANE, [3.0, 3, 3, 3, 3, 1e300], strict=True)])
    assert told.running == 3
    assert math.isfinite(told.arrivals or 0.0)
