"""Endpoint pickers: found by the Service that a pool names, asked through Prometheus alone, and never counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.decide.world import pool_spec
from tests.observe.pages import pages, scraped
from tests.protocol.scripted_server import ScriptedServer
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import PoolRecord, ResourceKey
from weft.domain.spec import GatewayParent, GatewaySpec, RouterKind, RouterSpec
from weft.domain.status import PoolStatus
from weft.observe.api_server.reading import Reader
from weft.observe.collector import AT_A_GATEWAY, MetricsCollector
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.pickers import READ_AGAIN_SECONDS, Pickers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.observe.samples.history import History
    from weft.observe.samples.scrape_target import Target

SLICES = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices"
RELEASE = EngineRelease(EngineName.VLLM, "0.32.0", "image")
EDGE = GatewayParent("gateway.networking.k8s.io", "Gateway", "edge")
COUNTED = ('llm_d_epp_request_total{model_name="m"} 100\n', 'llm_d_epp_request_total{model_name="m"} 190\n')


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def pool(uid: str, picker: str | None = None) -> PoolRecord:
    router = RouterSpec()
    if picker is not None:
        router = RouterSpec(RouterKind.Gateway, gateway=GatewaySpec((EDGE,), picker, 9002))
    key = ResourceKey("InferencePool", "team", uid, uid)
    return PoolRecord(key, 1, replace(pool_spec(1), router=router), PoolStatus(engine=RELEASE))


def endpoint(uid: str, ready: bool | None = True, kind: str = "Pod") -> dict[str, Any]:  # noqa: FBT001, FBT002 - as the API has it
    reference = {"kind": kind, "name": f"epp-{uid}", "uid": uid}
    return {"addresses": ["10.0.0.7"], "conditions": {"ready": ready}, "targetRef": reference}


def says(server: ScriptedServer, *slices: list[dict[str, Any]] | None, status: int = 200) -> None:
    items = [{"endpoints": endpoints} for endpoints in slices]
    server.answer = lambda _: web.json_response({"items": items}, status=status)


def pickers_of(server: ScriptedServer, clock: Clock) -> Pickers:
    return Pickers(Reader(ApiClient(Configuration(host=server.url))), clock)


def uids(found: dict[str, tuple[Target, ...]]) -> dict[str, list[str]]:
    return {pool_uid: [target.uid for target in targets] for pool_uid, targets in found.items()}


def test_ready_pods_behind_the_service_are_fronts_that_nobody_scrapes(server: ScriptedServer) -> None:
    says(
        server,
        [endpoint("b"), endpoint("c", ready=False)],
        [endpoint("a", ready=None), endpoint("n", kind="Node")],
        None,
    )
    found = pickers_of(server, Clock()).fronts([pool("chat", "epp"), pool("plain")])
    assert uids(found) == {"chat": ["a", "b"]}
    assert [(each.pod, each.namespace, each.scraped) for each in found["chat"]] == [
        ("epp-a", "team", False),
        ("epp-b", "team", False),
    ]
    assert server.count("GET", SLICES, labelSelector="kubernetes.io/service-name=epp") == 1


@pytest.mark.parametrize("reference", [{}, {"uid": "u"}, {"name": "n"}, {"uid": "u", "name": "../n"}])
def test_slices_written_by_hand_cost_no_other_pool_its_metrics(
    server: ScriptedServer, reference: dict[str, str]
) -> None:
    by_hand = {"addresses": ["10.0.0.9"], "targetRef": {"kind": "Pod", **reference}}
    says(server, [by_hand, endpoint("a")])
    assert uids(pickers_of(server, Clock()).fronts([pool("chat", "epp")])) == {"chat": ["a"]}


def test_an_answer_that_is_no_json_changes_nothing(server: ScriptedServer) -> None:
    server.answer = lambda _: web.Response(text="<html>")
    assert uids(pickers_of(server, Clock()).fronts([pool("chat", "epp")])) == {"chat": []}


def test_a_picker_that_two_pools_name_is_nobodys(server: ScriptedServer) -> None:
    """Its counters do not tell the pools apart, and demand counted twice buys GPUs twice."""
    says(server, [endpoint("a")])
    found = pickers_of(server, Clock()).fronts([pool("chat", "epp"), pool("code", "epp"), pool("lone", "own")])
    assert uids(found) == {"lone": ["a"]}


def test_both_halves_of_a_split_share_their_picker_and_nobody_else(server: ScriptedServer) -> None:
    says(server, [endpoint("a")])
    halves = [replace(pool(f"pd-{half}", "epp"), split_uid="pd") for half in ("prefill", "decode")]
    found = pickers_of(server, Clock()).fronts(halves)
    assert uids(found) == {"pd-prefill": ["a"], "pd-decode": ["a"]}
    assert pickers_of(server, Clock()).fronts([*halves, pool("chat", "epp")]) == {}


def test_slices_are_read_twice_a_minute_and_an_outage_changes_nothing(server: ScriptedServer) -> None:
    clock = Clock()
    pickers = pickers_of(server, clock)
    says(server, [endpoint("a")])
    for _ in range(3):
        assert uids(pickers.fronts([pool("chat", "epp")])) == {"chat": ["a"]}
    assert server.count("GET", SLICES) == 1
    clock.now += READ_AGAIN_SECONDS
    says(server, status=500)
    assert uids(pickers.fronts([pool("chat", "epp")])) == {"chat": ["a"]}
    clock.now += READ_AGAIN_SECONDS
    says(server, status=403)
    assert uids(pickers.fronts([pool("chat", "epp")])) == {"chat": []}


async def test_a_source_that_scrapes_leaves_pickers_alone(server: ScriptedServer) -> None:
    says(server, [endpoint("a")])
    (target,) = pickers_of(server, Clock()).fronts([pool("chat", "epp")])["chat"]
    asked: list[str] = []

    class Noting(DirectSource):
        async def _fetch(self, url: str) -> str | None:
            asked.append(url)
            return None

    await Noting().collect([target, replace(target, uid="b", scraped=True)])
    assert len(asked) == 1


class Told:
    """A source that knows what these pods counted."""

    def __init__(self, texts: dict[str, tuple[str, ...]]) -> None:
        self.texts = texts

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        known = [replace(target, scraped=True) for target in targets if target.uid in self.texts]
        return await scraped(tuple(known), {target.uid: self.texts[target.uid] for target in known})

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("texts", "arrived"), [({"a": COUNTED}, 90), ({}, None)])
async def test_demand_is_what_the_picker_counted_or_a_caveat_says_that_it_is_not(
    server: ScriptedServer, texts: dict[str, tuple[str, ...]], arrived: float | None
) -> None:
    """Such as where Prometheus does not scrape the picker."""
    says(server, [endpoint("a")])
    chat = pool("chat", "epp")
    collector = MetricsCollector(Told({"p": pages("vllm-0.32.0"), **texts}))
    identity = PodIdentity("chat", 0, 0, "r")
    engine = PodRecord(*("team", "p", "p", PodPhase.Running, "n", ()), identity=identity, ready=True, ip="10.0.0.1")
    await collector.collect([chat], (engine,), pickers_of(server, Clock()).fronts([chat]))
    seen = collector.observations()["chat"]
    assert (seen.arrivals_at_front, AT_A_GATEWAY in seen.caveats) == (arrived is not None, arrived is None)
    assert arrived in {None, seen.arrivals}
    assert seen.complete  # whatever the picker tells: the engines answered


async def test_a_service_that_selects_engines_takes_no_engine_away(server: ScriptedServer) -> None:
    """The Service of the pool itself, named as its picker's."""
    says(server, [endpoint("p")])
    chat = pool("chat", "chat")
    collector = MetricsCollector(Told({"p": pages("vllm-0.32.0")}))
    identity = PodIdentity("chat", 0, 0, "r")
    engine = PodRecord(*("team", "p", "p", PodPhase.Running, "n", ()), identity=identity, ready=True, ip="10.0.0.1")
    await collector.collect([chat], (engine,), pickers_of(server, Clock()).fronts([chat]))
    assert collector.observations()["chat"].answered == 1
