"""Pages that are taken for none: their replica counts as silent, and a caveat says why. Rules: S4, S5, F19."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.observe.pages import said, target
from tests.observe.telling import page
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.signals.observation import observe_pool, words_of
from weft.observe.sources import exposition
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation
    from weft.engines import EngineSeries

VLLM = series_for(EngineName.VLLM, "0.33.0")
SGLANG = series_for(EngineName.SGLang, "0.5.23")
TENSORRT_LLM = series_for(EngineName.TensorRTLLM, "1.3.0")
APART_SECONDS = 10.0
LOOKS = 6


class Pool:
    """Engines that show pages, one look after the other."""

    def __init__(self, series: EngineSeries = VLLM) -> None:
        self.series, self.now = series, 0.0
        self.source = DirectSource(clock=lambda: self.now)
        self.pages: dict[str, list[str]] = {}

    def shows(self, pod: str, *texts: str) -> Pool:
        self.pages[pod] = [self.named(text) for text in texts]
        return self

    def named(self, text: str) -> str:
        """The page of a vLLM with the names of this engine."""
        for name, kind in (("num_requests_running", "running"), ("num_requests_waiting", "waiting")):
            text = text.replace(f"vllm:{name}", str(getattr(self.series, kind)))
        text = text.replace("vllm:kv_cache_usage_perc", str(self.series.kv_usage))
        return text.replace("vllm:request_success_total", self.series.finished)

    def seen(self, **changes: object) -> PoolObservation:
        """What is observed; changes of targets by pod."""
        for step in range(max(map(len, self.pages.values()))):
            self.now = step * APART_SECONDS
            for pod, texts in self.pages.items():
                self.source.remember(pod, parse(texts[step], self.series.names))
        targets = [target(self.series, pod) for pod in self.pages]
        return observe_pool([replace(each, **changes.get(each.uid, {})) for each in targets], self.source.windows())  # type: ignore[arg-type]


def held(seen: PoolObservation, why: str) -> bool:
    """Whether one replica is no part of the sums, and the reason is told."""
    return seen.answered == seen.expected - 1 and any(why in sentence for sentence in said(seen))


def beating(text: str, seconds: float, series: EngineSeries = VLLM) -> str:
    return f"{text}{series.heartbeat} {seconds}\n"


BUSY = [page(1000 + 50 * look) for look in range(LOOKS)]
FROZEN = [page(1000)] * LOOKS
SLOW = [page(1000 + 5 * look) for look in range(LOOKS)]
IDLE = [page(1000, inside=0).replace(" 0.25\n", " 0\n")] * LOOKS
ALIKE = {"models": frozenset(("m", "m-served")), "revision": "r1"}


class TestStandingStill:
    def test_of_an_sglang_with_requests_inside_is_no_demand_of_zero(self) -> None:
        """It tells its gauges anew every 30 s once it is idle: after 45 s it hangs, or the page is old."""
        assert held(Pool(SGLANG).shows("a", *FROZEN).seen(), "its metrics do not change")

    def test_of_a_tensorrt_llm_is_an_old_page_beside_busy_siblings(self) -> None:
        pool = Pool(TENSORRT_LLM).shows("a", *FROZEN).shows("b", *BUSY).shows("c", *BUSY)
        seen = pool.seen()
        assert held(seen, "an engine's metrics no longer change")
        assert seen.requests_per_second == pytest.approx(10.0)

    @pytest.mark.parametrize("others", [[], [IDLE], [BUSY, SLOW]], ids=["alone", "all idle", "few requests"])
    def test_of_a_tensorrt_llm_may_be_idleness_where_siblings_do_not_contradict(self, others: list[list[str]]) -> None:
        pool = Pool(TENSORRT_LLM).shows("a", *FROZEN)
        for number, texts in enumerate(others):
            pool.shows(str(number), *texts)
        assert pool.seen().complete

    def test_of_an_sglang_is_an_old_page_beside_busy_siblings_where_its_process_tells_nothing(self) -> None:
        seen = Pool(SGLANG).shows("a", *IDLE).shows("b", *BUSY).seen()
        assert held(seen, "an engine's metrics no longer change")

    def test_of_a_vllm_without_requests_is_believed_beside_busy_siblings(self) -> None:
        """Its gauges are of now."""
        assert Pool().shows("a", *IDLE).shows("b", *BUSY).seen().complete

    def test_together_with_the_time_that_its_process_computes_is_an_old_page_though_nobody_is_inside(self) -> None:
        """A proxy that keeps a page from when the engine was idle hides whatever came since."""
        alive = [beating(text, 9.5 + look) for look, text in enumerate(BUSY)]
        pool = Pool().shows("a", *[beating(text, 7.5) for text in IDLE]).shows("b", *alive)
        seen = pool.seen()
        assert held(seen, "an engine's metrics no longer change")
        words = words_of([target(VLLM, "a"), target(VLLM, "b")], pool.source.windows())
        assert [word.idle for word in words.values()] == [False]

    @pytest.mark.parametrize("others", [[], BUSY], ids=["alone", "beside one that does not count it"])
    def test_of_that_time_is_no_old_page_where_nobody_counts_it(self, others: list[str]) -> None:
        pool = Pool().shows("a", *[beating(text, 7.5) for text in IDLE])
        if others:
            pool.shows("b", *[beating(text, 7.5) for text in others])
        assert pool.seen().complete
        assert [word.idle for word in words_of([target(VLLM, "a")], pool.source.windows()).values()] == [True]

    def test_is_being_idle_where_its_process_goes_on(self) -> None:
        pool = Pool().shows("a", *[beating(text, 7.5 + look) for look, text in enumerate(IDLE)]).shows("b", *BUSY)
        assert pool.seen().complete

    def test_is_hanging_where_only_its_process_goes_on(self) -> None:
        """Who serves the page is not who computes."""
        pool = Pool().shows("a", *[beating(text, 7.5 + look) for look, text in enumerate(FROZEN)])
        assert held(pool.seen(), "its metrics do not change")


class TestSeriesThatAreThereTwice:
    def test_with_two_values_have_none(self) -> None:
        twice = [text + text.replace("} 3\n", "} 0\n") for text in BUSY]
        seen = Pool().shows("a", *twice).seen()
        assert seen.running is None
        assert "vllm:num_requests_running on the engine's page is not a number or appears twice" in said(seen)

    def test_of_one_rank_leave_no_sum(self) -> None:
        """What the others tell is less than there is."""
        rank = 'vllm:num_requests_running{engine="1",model_name="m"} '
        seen = Pool().shows("a", *[f"{text}{rank}5\n{rank}0\n" for text in BUSY]).shows("b", *BUSY).seen()
        assert held(seen, "their sum is ignored")

    def test_with_one_value_are_believed(self) -> None:
        seen = Pool().shows("a", *[text + text for text in BUSY]).seen()
        assert (seen.complete, seen.running) == (True, 3)


class TestPagesOfOtherModels:
    """`b` is scraped at a port that another engine took."""

    def seen(self, other: str, revision: str = "r1") -> PoolObservation:
        pool = Pool().shows("a", *BUSY).shows("b", *[text.replace('"m"', f'"{other}"') for text in BUSY])
        return pool.seen(a=ALIKE, b=ALIKE | {"revision": revision})

    def test_are_none_of_the_pool(self) -> None:
        seen = self.seen("someone-else")
        assert held(seen, "a metrics page is of another model than the pool serves")
        assert seen.running == 3
        assert seen.requests_per_second == pytest.approx(5.0)

    @pytest.mark.parametrize(("other", "revision"), [("m-served", "r1"), ("m-before", "r0")], ids=["alias", "earlier"])
    def test_are_not_suspected_of_other_names_of_its_own(self, other: str, revision: str) -> None:
        """While a pool gets another name, those of the revision before serve by the earlier one."""
        assert self.seen(other, revision).complete

    def test_are_not_suspected_where_no_engine_tells_a_name_that_is_known(self) -> None:
        texts = [text.replace('"m"', '"a-path"') for text in BUSY]
        assert Pool().shows("a", *texts).seen(a=ALIKE).complete


class TestOneScrape:
    @pytest.mark.parametrize("at", range(1, LOOKS))
    def test_alone_is_no_crowd(self, at: int) -> None:
        """90,000 that wait would be a pool's worth of replicas in five minutes."""
        texts = [
            text.replace('waiting{model_name="m"} 0', f'waiting{{model_name="m"}} {90_000 * (look == at)}')
            for look, text in enumerate(BUSY)
        ]
        seen = Pool().shows("a", *texts).shows("b", *BUSY).seen()
        assert seen.waiting == 0
        assert not seen.pods[0].waiting
        assert (seen.arrivals or 0.0) == pytest.approx(100.0)
        assert any("a crowd in a single scrape" in sentence for sentence in said(seen))

    def test_after_which_a_crowd_is_still_there_is_believed(self) -> None:
        texts = [
            text.replace('waiting{model_name="m"} 0', f'waiting{{model_name="m"}} {50_000 * (look > 3)}')
            for look, text in enumerate(BUSY)
        ]
        assert Pool().shows("a", *texts).seen().waiting == 50_000

    @pytest.mark.parametrize("at", range(1, LOOKS))
    @pytest.mark.parametrize("stays", [True, False])
    def test_alone_does_not_answer_tens_of_thousands(self, at: int, *, stays: bool) -> None:
        """Neither before the count falls back nor where it never does: no replica answers so many, and then a few."""
        leapt = [50_000.0 * (look >= at if stays else look == at) for look in range(LOOKS)]
        texts = [page(1000 + 50 * look + more) for look, more in enumerate(leapt)]
        seen = Pool().shows("a", *texts).shows("b", *BUSY).seen()
        assert held(seen, "grows faster than a replica can serve")
        assert seen.requests_per_second == pytest.approx(5.0)

    def test_of_a_fast_engine_is_one_of_many(self) -> None:
        assert Pool().shows("a", *[page(20_000.0 * look) for look in range(LOOKS)]).seen().requests_per_second == 2000


class TestLabelsThatChange:
    @staticmethod
    def changing(text: str, look: int, *names: str) -> str:
        pattern = rf"^(vllm:(?:{'|'.join(names)})\S*{{)"
        return re.sub(pattern, rf'\1request="{look}",', text, flags=re.MULTILINE)

    def test_do_not_add_up(self) -> None:
        names = ("num_requests_running", "num_requests_waiting")
        texts = [self.changing(text, look, *names) for look, text in enumerate(BUSY)]
        seen = Pool().shows("a", *texts).shows("b", *BUSY).seen()
        assert held(seen, "labels of an engine's series change with every scrape")
        assert seen.running == 3

    def test_once_are_those_of_an_engine_that_started_anew(self) -> None:
        texts = [self.changing(text, look // 5, "num_requests_running") for look, text in enumerate(BUSY)]
        assert Pool().shows("a", *texts).seen().running == 6  # for two scrapes, as one page alone may be torn
        assert Pool().shows("a", *texts, self.changing(page(1300), 1, "num_requests_running")).seen().running == 3

    def test_of_a_counter_are_no_pause(self) -> None:
        texts = [self.changing(text, look, "request_success_total") for look, text in enumerate(BUSY)]
        with_another = [f'{text}vllm:request_success_total{{finished_reason="abort"}} 0\n' for text in texts]
        assert held(Pool().shows("a", *with_another).shows("b", *BUSY).seen(), "change with every scrape")

    def test_are_remembered_as_far_as_one_large_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("weft.observe.sources.direct.MOST_SAMPLES", 100)
        source = DirectSource(clock=lambda: 0.0)
        for look in range(20):
            text = "".join(f'vllm:num_requests_running{{at="{look}-{one}"}} 1\n' for one in range(30))
            source.remember("a", exposition.parse(text, VLLM.names))
        (history,) = source.windows().values()
        assert 60 <= len(history.series) <= 100
