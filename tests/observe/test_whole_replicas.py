"""A replica that answers at several pods or ports is read as one, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.observe.pages import page, scraped
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import STALE_SECONDS, PoolRecord, ResourceKey
from weft.domain.status import PoolStatus
from weft.observe.collector import MetricsCollector
from weft.observe.samples.history import History
from weft.observe.samples.whole_replicas import of_whole_replicas
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.prometheus import PrometheusSource
from weft.observe.sources.targets import targets_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.observe.samples.scrape_target import Target

RELEASE = EngineRelease(EngineName.VLLM, "0.32.0", "image")
RECORDED = (page("vllm-0.32.0", "first"), page("vllm-0.32.0", "second"))


def pod(replica: int, rank: int, servers: int | None = 1, **fields: Any) -> PodRecord:  # noqa: ANN401 - of PodRecord
    name = f"chat-{replica}-{rank}"
    usual: dict[str, Any] = {
        "identity": PodIdentity("pool", replica, rank, "r"),
        "ready": True,
        "ip": f"10.0.{replica}.{rank}",
    }
    place = ("team", name, f"uid-{replica}-{rank}", PodPhase.Running, "node", ())
    return PodRecord(*place, **{**usual, "servers": servers, **fields})


def test_every_pod_that_answers_is_asked_and_the_first_stands_for_all() -> None:
    (found,) = targets_of("pool", [pod(0, 1), pod(0, 0)], RELEASE)
    assert [each.pod for each in (found, *found.pages)] == ["chat-0-0", "chat-0-1"]
    assert [each.uid for each in (found, *found.pages)] == ["uid-0-0", "uid-0-1"]


def test_every_port_of_a_pod_is_asked_and_only_by_scraping() -> None:
    """Prometheus tells the pod of a sample, and nothing that would be sure to be its port."""
    (found,) = targets_of("pool", [pod(0, 0, 2), pod(0, 1, 2)], RELEASE)
    asked = (found, *found.pages)
    assert [each.url for each in asked] == [
        f"http://10.0.0.{rank}:{port}/metrics" for rank in (0, 1) for port in (8000, 8001)
    ]
    assert len({each.uid for each in asked}) == 4
    assert all(each.shares_pod for each in asked)


def test_workers_that_answer_nothing_are_not_asked() -> None:
    (found,) = targets_of("pool", [pod(0, 0, None), pod(0, 1, None)], RELEASE)
    assert (found.pod, found.pages, found.shares_pod) == ("chat-0-0", (), False)


@pytest.mark.parametrize("fault", [{"ready": False}, {"terminating": True}, {"ip": None}])
def test_a_replica_of_which_a_pod_does_not_answer_is_not_expected_to(fault: dict[str, Any]) -> None:
    assert targets_of("pool", [pod(0, 0), pod(0, 1, **fault), pod(1, 0), pod(1, 1)], RELEASE)[0].pod == "chat-1-0"
    assert targets_of("pool", [pod(0, 1)], RELEASE) == ()


async def test_what_two_pods_count_is_added_up_to_one_replica() -> None:
    alone = targets_of("pool", [pod(0, 0)], RELEASE)
    one = observe_pool(alone, await scraped(alone, {"uid-0-0": RECORDED}))
    both = targets_of("pool", [pod(0, 0), pod(0, 1)], RELEASE)
    pages = (both[0], *both[0].pages)
    histories = await scraped(pages, {each.uid: RECORDED for each in pages})
    found = observe_pool(both, of_whole_replicas(both, histories))
    assert (found.expected, found.answered) == (1, 1)
    assert one.requests_per_second
    assert found.requests_per_second == pytest.approx(2 * one.requests_per_second)
    assert found.running == pytest.approx(2 * (one.running or 0.0))
    for mean in ("kv_usage", "ttft_mean", "tpot_mean", "input_tokens", "prefix_hit"):
        assert getattr(found, mean) == pytest.approx(getattr(one, mean)), mean
    assert [each.pod for each in found.pods] == ["chat-0-0"]


async def test_a_part_of_a_replica_is_no_answer() -> None:
    """It would look like one with little to do."""
    both = targets_of("pool", [pod(0, 0), pod(0, 1)], RELEASE)
    pages = (both[0], *both[0].pages)
    histories = await scraped(pages, {each.uid: RECORDED for each in pages})
    missing = {uid: history for uid, history in histories.items() if uid == "uid-0-0"}
    stale = {**histories, "uid-0-1": older(histories["uid-0-1"], STALE_SECONDS + 1)}
    for told in (missing, stale):
        found = observe_pool(both, of_whole_replicas(both, told))
        assert (found.expected, found.answered) == (1, 0)


async def test_a_replica_is_as_old_as_what_its_oldest_page_tells() -> None:
    """What was scraped before the last request came says nothing of whether it is done."""
    both = targets_of("pool", [pod(0, 0), pod(0, 1)], RELEASE)
    pages = (both[0], *both[0].pages)
    histories = await scraped(pages, {each.uid: RECORDED for each in pages})
    ages = {uid: histories[uid].age_seconds + late for uid, late in (("uid-0-0", 20.0), ("uid-0-1", 5.0))}
    told = {uid: older(history, ages[uid] - history.age_seconds) for uid, history in histories.items()}
    whole = of_whole_replicas(both, told)["uid-0-0"]
    assert whole.age_seconds == pytest.approx(max(ages.values()))
    assert whole.silent_seconds == whole.age_seconds
    asked_anew = {uid: replace(history, asked_seconds=1.0) for uid, history in told.items()}
    assert of_whole_replicas(both, {**told, "uid-0-0": asked_anew["uid-0-0"]})["uid-0-0"].silent_seconds > 1.0
    assert of_whole_replicas(both, asked_anew)["uid-0-0"].silent_seconds == 1.0


async def test_windows_of_two_sources_are_laid_over_each_other() -> None:
    """Prometheus stamps samples by its own clock."""
    both = targets_of("pool", [pod(0, 0), pod(0, 1)], RELEASE)
    pages = (both[0], *both[0].pages)
    histories = await scraped(pages, {each.uid: RECORDED for each in pages})
    there = histories["uid-0-1"]
    shifted = History(there.now + 1e6, {key: later(samples) for key, samples in there.series.items()})
    plain = of_whole_replicas(both, histories)["uid-0-0"]
    assert of_whole_replicas(both, {**histories, "uid-0-1": shifted})["uid-0-0"].series == plain.series


def older(history: History, seconds: float) -> History:
    return replace(history, now=history.now + seconds)


def later(samples: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    return tuple((at + 1e6, value) for at, value in samples)


class Nobody:
    """A client of Prometheus that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def custom_query(self, query: str) -> list[object]:
        self.asked.append(query)
        return [0.0, "1000"] if query == "time()" else []


async def test_prometheus_is_not_asked_for_pods_of_several_ports() -> None:
    source, client = PrometheusSource("http://prometheus", ThreadPoolExecutor(1)), Nobody()
    source._client = client
    (several,) = targets_of("pool", [pod(0, 0, 2)], RELEASE)
    (one,) = targets_of("pool", [pod(1, 0)], RELEASE)
    await source.collect([several, *several.pages, one])
    (query,) = (asked for asked in client.asked if asked != "time()")
    assert "chat-1-0" in query
    assert "chat-0-0" not in query


class Scripted:
    """A source that knows these windows."""

    def __init__(self, known: dict[str, History]) -> None:
        self.known = known
        self.asked: list[str] = []

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        self.asked = sorted(target.uid for target in targets)
        return self.known

    async def close(self) -> None:
        """Nothing is open."""


async def test_one_collection_asks_for_every_page_and_tells_of_replicas() -> None:
    both = targets_of("pool", [pod(0, 0), pod(0, 1)], RELEASE)
    pages = (both[0], *both[0].pages)
    source = Scripted(await scraped(pages, {each.uid: RECORDED for each in pages}))
    collector = MetricsCollector(source)
    key = ResourceKey("InferencePool", "team", "chat", "pool")
    release = EngineRelease(EngineName.VLLM, "0.32.0", "image")
    await collector.collect((PoolRecord(key, 1, None, PoolStatus(engine=release)),), (pod(0, 0), pod(0, 1)))
    assert source.asked == ["uid-0-0", "uid-0-1"]
    seen, whole = collector.observations()["pool"], of_whole_replicas(both, source.known)
    assert seen.requests_per_second == observe_pool(both, whole).requests_per_second
    assert (seen.expected, seen.answered) == (1, 1)
