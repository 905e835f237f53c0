"""One collection asks the engines of every pool and the routers before them."""

from __future__ import annotations

import asyncio
import threading
from collections import UserDict
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import pool_spec
from tests.observe.pages import pages, scraped
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import EngineWord, PoolRecord, ResourceKey
from weft.domain.spec import RouterKind, RouterSpec
from weft.domain.status import PoolStatus
from weft.observe.arithmetic import Sample
from weft.observe.collector import AT_A_GATEWAY, MetricsCollector
from weft.observe.history import History, Origin, SeriesKey

if TYPE_CHECKING:
    from collections.abc import Iterable, ValuesView

    from weft.observe.history import Target

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


def engine(uid: str, pool_uid: str) -> PodRecord:
    return PodRecord(
        *("team", uid, uid, PodPhase.Running, "node-1", ()),
        identity=PodIdentity(pool_uid, 0, 0, "r"),
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
        self.in_time.append(self.turned.wait(5.0 if all(self.in_time) else 0.0))
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
