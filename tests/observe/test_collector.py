"""One collection asks the engines of every pool and the routers before them."""

from __future__ import annotations

import asyncio
import threading
from collections import UserDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.decide.world import pool_spec
from tests.observe.pages import pages, scraped
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import EngineWord, PoolRecord, ResourceKey
from weft.domain.spec import RouterKind, RouterSpec
from weft.domain.status import PoolStatus
from weft.observe.collector import AT_A_GATEWAY, MetricsCollector
from weft.observe.samples.arithmetic import Sample, merged
from weft.observe.samples.history import History, Origin, SeriesKey

if TYPE_CHECKING:
    from collections.abc import Iterable, ValuesView

    import pytest

    from weft.domain.snapshot import PoolObservation
    from weft.observe.samples.scrape_target import Target

SGLANG = EngineRelease(EngineName.SGLang, "0.5.23", "lmsysorg/sglang:v0.5.23")
ROUTER_TEXTS = pages("vllm-router-0.1.17")


class Scripted:
    """A source that scrapes pods which show these texts."""

    def __init__(self, texts: dict[str, tuple[str, ...]]) -> None:
        self.texts = texts
        self.asked: dict[str, Target] = {}

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        self.asked = {target.uid: target for target in targets}
        return await scraped(tuple(self.asked.values()), {uid: self.texts[uid] for uid in self.asked})

    async def close(self) -> None:
        """Nothing is open."""


def pool(uid: str, release: EngineRelease | None, split_uid: str | None = None) -> PoolRecord:
    key = ResourceKey("InferencePool", "team", f"pool-{uid}", uid)
    return PoolRecord(key, 1, None, PoolStatus(engine=release), split_uid=split_uid)


def engine(uid: str, pool_uid: str, replica: int = 0, image: str = "", name: str = "") -> PodRecord:
    return PodRecord(
        *("team", uid, uid, PodPhase.Running, "node-1", ()),
        identity=PodIdentity(pool_uid, replica, 0, "r"),
        image=image,
        engine=name,
        ready=True,
        ip="10.0.0.1",
        startup_seconds=120.0,
    )


def router(uid: str, before: str) -> PodRecord:
    return PodRecord(*("team", uid, uid, PodPhase.Running, "node-1", ()), ready=True, ip="10.0.0.2", front_of=before)


async def test_both_halves_of_a_split_hear_of_its_front_and_each_engine_is_asked_in_its_own_way() -> None:
    source = Scripted({"p": pages("vllm-0.32.0"), "s": pages("sglang-0.5.23"), "f": ROUTER_TEXTS})
    collector = MetricsCollector(source)
    pools = (
        pool("prefill", EngineRelease(EngineName.VLLM, "0.32.0", "image"), "split"),
        pool("decode", EngineRelease(EngineName.SGLang, "0.5.23", "image"), "split"),
        pool("unknown", None),
        pool("odd", EngineRelease(EngineName.VLLM, "latest", "image")),
    )
    await collector.collect(pools, (engine("p", "prefill"), engine("s", "decode"), router("f", "split")))
    seen = collector.observations()
    assert {(one.port, one.path) for one in source.asked.values()} == {
        (8000, "/metrics"),
        (30000, "/metrics"),
        (29000, "/metrics"),
    }
    assert {uid: (one.arrivals, one.arrivals_at_front) for uid, one in seen.items()} == {
        "prefill": (22, True),
        "decode": (22, True),
    }
    assert seen["decode"].startup_seconds == 120  # by its conditions; the engine alone says 95.5
    assert collector.engines_read == {Origin.Engine: 2, Origin.Prometheus: 0}


OLD, NEW = EngineRelease(EngineName.VLLM, "0.32.0", "vllm/vllm-openai:v0.32.0"), SGLANG
ROLLING = (engine("old", "chat", 0, OLD.image, "vllm"), engine("new", "chat", 1, NEW.image, "sglang"))


async def test_while_a_pool_changes_its_engine_each_replica_is_read_as_what_its_own_pod_runs() -> None:
    """Both tell their load, so that the pool is seen whole; the way back is read alike."""
    for planned in (OLD, NEW):
        source = Scripted({"old": pages("vllm-0.32.0"), "new": pages("sglang-0.5.23")})
        collector = MetricsCollector(source)
        await collector.collect((pool("chat", planned),), ROLLING)
        seen = collector.observations()["chat"]
        assert {uid: one.port for uid, one in source.asked.items()} == {"old": 8000, "new": 30000}
        assert seen.complete
        assert not seen.missing
        alone = [(await alone_of(pod, release)) for pod, release in zip(ROLLING, (OLD, NEW), strict=True)]
        assert seen.running == sum(each.running or 0.0 for each in alone)
        assert seen.requests_per_second == sum(each.requests_per_second or 0.0 for each in alone)
        assert seen.ttft_buckets == merged(each.ttft_buckets for each in alone)


async def alone_of(pod: PodRecord, release: EngineRelease) -> PoolObservation:
    """What the pool tells whose only replica this is."""
    release_pages = {"old": pages("vllm-0.32.0"), "new": pages("sglang-0.5.23")}
    collector = MetricsCollector(Scripted({pod.uid: release_pages[pod.uid]}))
    await collector.collect((pool("chat", release),), (pod,))
    return collector.observations()["chat"]


async def test_a_replica_of_the_engine_before_tells_whether_it_is_idle() -> None:
    """It leaves once it is; SGLang is believed by no pool."""
    collector = MetricsCollector(Scripted({"old": pages("vllm-0.32.0"), "new": pages("sglang-0.5.23")}))
    await collector.collect((pool("chat", NEW),), ROLLING)
    assert collector.engines("chat", {"old", "new"}).keys() == {"old"}


async def test_while_a_pool_changes_its_image_each_replica_is_asked_where_its_own_answers() -> None:
    """A NIM hands metrics on elsewhere; another version is read by its own names, of which none is told as odd."""
    source = Scripted({"old": pages("vllm-0.10.0"), "new": pages("vllm-0.32.0")})
    collector = MetricsCollector(source)
    nim = EngineRelease(EngineName.VLLM, "0.32.0", "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.6")
    pods = (engine("old", "chat", 0, "vllm/vllm-openai:v0.10.0"), engine("new", "chat", 1, nim.image))
    await collector.collect((pool("chat", nim),), pods)
    assert {uid: one.path for uid, one in source.asked.items()} == {"old": "/metrics", "new": "/v1/metrics"}
    assert not any("is read" in each.says for each in collector.observations()["chat"].caveats)


async def test_requests_and_gaps_are_no_histogram_together() -> None:
    """Before 0.11.2 vLLM times each gap between tokens, then each request: percentiles of both would be of neither."""
    collector = MetricsCollector(Scripted({"old": pages("vllm-0.10.0"), "new": pages("vllm-0.32.0")}))
    pods = (engine("old", "chat", 0, "vllm/vllm-openai:v0.10.0"), engine("new", "chat", 1, OLD.image))
    await collector.collect((pool("chat", OLD),), pods)
    seen = collector.observations()["chat"]
    assert (seen.tpot, seen.tpot_buckets) == ((), ())
    assert seen.tpot_mean
    assert seen.ttft
    assert [each.says for each in seen.caveats if each.figure == "tpot"] == [
        "some replicas report TPOT by request and others by token gap: there are no percentiles for the pool"
    ]
    for alone in pods:
        await collector.collect((pool("chat", OLD),), (alone,))
        assert collector.observations()["chat"].tpot


async def test_what_contradicts_itself_in_one_engine_is_believed_of_another() -> None:
    percent = [text.replace("sglang:token_usage", "sglang:not_used") for text in pages("sglang-0.5.23")]
    percent = [f'{text}sglang:token_usage{{model_name="m"}} 42.0\n' for text in percent]
    texts: dict[str, tuple[str, ...]] = {"old": pages("vllm-0.32.0"), "new": tuple(percent)}
    collector = MetricsCollector(Scripted(texts))
    await collector.collect((pool("chat", NEW),), ROLLING)
    usage = {pod.pod: pod.kv_usage for pod in collector.observations()["chat"].pods}
    assert usage["new"] is None
    assert usage["old"] is not None


async def test_a_nim_is_asked_where_its_proxy_answers() -> None:
    """It has nothing at `/metrics`; what it hands on has the engine's own names."""
    source = Scripted({"p": pages("vllm-0.32.0")})
    collector = MetricsCollector(source)
    release = EngineRelease(EngineName.VLLM, "0.32.0", "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.6")
    await collector.collect((pool("chat", release),), (engine("p", "chat"),))
    assert {(one.port, one.path) for one in source.asked.values()} == {(8000, "/v1/metrics")}
    assert collector.observations()["chat"].complete


async def test_what_an_engine_told_grows_older_until_it_tells_again() -> None:
    """Whoever waits for an idle engine has to know of when that was."""
    now = [100.0]
    release = EngineRelease(EngineName.VLLM, "0.32.0", "")
    collector = MetricsCollector(Scripted({"e": pages("vllm-0.32.0")}), lambda: now[0])
    await collector.collect((pool("p", release),), (engine("e", "p"),))
    fresh = collector.engines("p", {"e"})["e"]
    now[0] += 7.0
    assert collector.engines("p", {"e"}) == {"e": EngineWord(idle=False, age_seconds=fresh.age_seconds + 7.0)}
    assert collector.engines("p", {"f"}) == collector.engines("another", {"e"}) == {}


async def test_whoever_answered_first_is_as_old_as_the_collection_that_waited_for_others() -> None:
    """A Prometheus that is slow must not make an engine look idle lately that was so half a minute ago."""
    now, release = [100.0], EngineRelease(EngineName.VLLM, "0.32.0", "")

    class Slow(Scripted):
        async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
            found = await super().collect(targets)
            now[0] += self.takes
            return found

        takes = 0.0

    source = Slow({"e": pages("vllm-0.32.0")})
    collector, ages = MetricsCollector(source, lambda: now[0]), []
    for source.takes in (0.0, 30.0):
        await collector.collect((pool("p", release),), (engine("e", "p"),))
        ages.append(collector.observations()["p"].age_seconds)
    assert ages[1] - ages[0] == 30.0


async def test_an_engine_tells_whether_it_is_idle_before_it_tells_a_rate() -> None:
    """The first sight of it after a restart."""
    release = EngineRelease(EngineName.VLLM, "0.32.0", "")
    collector = MetricsCollector(Scripted({"e": pages("vllm-0.32.0")[:1]}))
    await collector.collect((pool("p", release),), (engine("e", "p"),))
    assert collector.observations()["p"].answered == 0
    assert collector.engines("p", {"e"})["e"].idle


async def test_a_pool_behind_a_gateway_says_when_its_picker_tells_nothing() -> None:
    release = EngineRelease(EngineName.VLLM, "0.32.0", "image")
    specs = {kind: replace(pool_spec(1), router=RouterSpec(kind)) for kind in RouterKind}
    pools = [replace(pool(kind.value, release), spec=spec) for kind, spec in specs.items()]
    collector = MetricsCollector(Scripted({"p": pages("vllm-0.32.0")}))
    await collector.collect(pools, (engine("p", "Managed"),))
    told = {uid: AT_A_GATEWAY in seen.caveats for uid, seen in collector.observations().items()}
    assert told == {"None": False, "Managed": False, "Gateway": True}


class Slow(UserDict[SeriesKey, tuple[Sample, ...]]):
    """Series that are there once the event loop has turned."""

    def __init__(self, turned: threading.Event) -> None:
        super().__init__()
        self.turned = turned
        self.in_time: list[bool] = []

    def values(self) -> ValuesView[tuple[Sample, ...]]:
        self.in_time.append(self.turned.wait(30.0 if all(self.in_time) else 0.0))
        return super().values()


class OfSlowSeries:
    """A source of them."""

    def __init__(self, series: Slow) -> None:
        self.series = series

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        asyncio.get_running_loop().call_soon(self.series.turned.set)
        return {target.uid: History(0.0, self.series) for target in targets}

    async def close(self) -> None:
        """Nothing is open."""


async def test_probes_are_answered_while_many_replicas_are_read() -> None:
    series = Slow(threading.Event())
    release = EngineRelease(EngineName.VLLM, "0.32.0", "")
    await MetricsCollector(OfSlowSeries(series)).collect([pool("p", release)], (engine("e", "p"),))
    assert series.in_time
    assert all(series.in_time)


class Poisoned(Scripted):
    """A source of whose answers about one pod nothing can be read."""

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        told = await super().collect(targets)
        series: Any = {("a name", ()): "nobody reads this"}
        return {**told, "bad": replace(told["bad"], series=series)}


async def test_a_mistake_over_the_metrics_of_one_pool_leaves_those_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """Its own are missing then, so that its count is held, and say why; the log has it once."""
    texts = pages("vllm-0.32.0")
    collector = MetricsCollector(Poisoned({"good": texts, "bad": texts}))
    for _ in range(3):
        await collector.collect((pool("p", OLD), pool("q", OLD)), (engine("good", "p"), engine("bad", "q")))
    seen = collector.observations()
    assert seen["p"].complete
    assert (1, 0, False) == (seen["q"].expected, seen["q"].answered, seen["q"].complete)
    (caveat,) = seen["q"].caveats
    assert "Weft made a mistake" in caveat.says
    assert 5.0 > seen["q"].silent_seconds("bad")  # a node that is gone from under it is waited for
    assert 1 == len(caplog.records)
