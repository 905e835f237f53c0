"""One turn of the decide loop, from bodies to written statuses: a mistake about one resource stops no other."""

from __future__ import annotations

import asyncio
import gzip
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fabric.cluster import board
from weft.catalog import load
from weft.control.converging.view import Viewer
from weft.control.deciding.decide_loop import DecideLoop
from weft.control.health import Pulse
from weft.control.metrics.telemetry import Telemetry
from weft.control.options import RunOptions
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.labels import API_VERSION
from weft.domain.queueing import Queueing
from weft.domain.reasons import Explanation, Reason
from weft.domain.reports import Reports
from weft.domain.snapshot import PoolObservation
from weft.observe.custom_resources.cache import ResourceCache
from weft.observe.snapshot_builder import Sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weft.domain.snapshot import ResourceKey

Json = dict[str, Any]
NOW = 1_800_000_000.0


class Poisoned(dict[str, Any]):
    """Part of a body over which reading stumbles."""

    def items(self) -> Any:  # noqa: ANN401 - nothing
        """Of a spec this is read."""
        raise KeyError("of ours")

    def get(self, *_: Any) -> Any:  # noqa: ANN401 - nothing
        """Of a status this is."""
        raise KeyError("of ours")


class Over(Exception):  # noqa: N818 - no error
    """The loop has turned often enough."""


def pool_body(name: str, replicas: int, **spec: Any) -> Json:  # noqa: ANN401 - any JSON
    scaling = {"mode": "External", "replicas": replicas}
    model, shape = {"id": "meta-llama/Llama-3.1-8B-Instruct"}, {"tensorParallel": 8}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferencePool",
        "metadata": meta,
        "spec": {"model": model, "shape": shape, "scaling": scaling, **spec},
    }


class Cluster:
    """Six boards, and caches and an API server around one decide loop that knows no sockets."""

    def __init__(self, record: Path | None = None) -> None:
        self.told: list[tuple[str, Explanation]] = []
        self.observations: dict[str, PoolObservation] = {}
        self.classes: dict[str | None, int] = {None: 0}
        self.version = 1
        self.pods: tuple[PodRecord, ...] = ()
        self.resources = ResourceCache(lambda _: None)
        ours: Any = SimpleNamespace(
            nodes=lambda: tuple(board(f"b-{index}") for index in range(6)),
            pods=lambda: self.pods,
            reports=Reports,
            queueing=Queueing,
            quotas=tuple,
            objects=tuple,
            shown_pairs=dict,
            taken_routes=frozenset,
            lacks_for_gateways=None,
            blind_seconds=0.0,
            revision=0,
        )
        fakes: Any = self
        logs: Any = SimpleNamespace(add=lambda pods, _: tuple(pods))
        self.context: Any = SimpleNamespace(
            options=RunOptions(record=record),
            catalog=load(),
            clock=SimpleNamespace(now=lambda: NOW),
            cluster=ours,
            resources=self.resources,
            sources=Sources(ours, self.resources, fakes, fakes, logs),
            collector=SimpleNamespace(observations=lambda: self.observations),
            past=SimpleNamespace(found=lambda _: {}),
            writer=self,
            events=self,
            telemetry=Telemetry(),
            pulse=Pulse(),
            executor=None,
            observed=True,
        )

    def value(self, name: str | None) -> int:
        """Of a PriorityClass."""
        return self.classes[name]

    def preempts(self, _: str | None) -> bool:
        """By no PriorityClass."""
        return True

    def record(self, key: ResourceKey, explanation: Explanation, *, warns: bool = False) -> None:  # noqa: ARG002
        """Take an event."""
        self.told.append((key.name, explanation))

    def write_status(self, key: ResourceKey, status: Json, manager: str, resource_version: str) -> Json:  # noqa: ARG002
        """As the API server does, for one manager."""
        body = self.resources.body(key.uid)
        assert body is not None
        self.version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}, "status": status}

    def edit(self, body: Json) -> None:
        """Somebody applies it; of what is there its status stays."""
        self.version += 1
        known = self.resources.body(body["metadata"]["uid"]) or {}
        meta = {**body["metadata"], "resourceVersion": str(self.version), "generation": self.version}
        self.resources.put({"status": known.get("status") or {}, **body, "metadata": meta})

    def turn(self, times: int = 1) -> None:
        """So many passes of one process."""
        asyncio.run(self._turn(times))

    async def _turn(self, times: int) -> None:
        turns: Any = Turns(times)
        loop = DecideLoop(self.context, turns)
        with pytest.raises(Over):
            await loop.run()

    def status(self, name: str) -> Json:
        """As it is written."""
        body = self.resources.body(f"uid-{name}")
        assert body is not None
        return dict(dict.items(body["status"]))

    def places(self, name: str) -> list[Json]:
        """Assignments."""
        return list(self.status(name).get("assignments") or ())

    def planned(self, name: str) -> Json:
        """The condition of that name."""
        return next(each for each in self.status(name)["conditions"] if each["type"] == "Planned")

    @property
    def failures(self) -> float:
        """Mistakes that were counted."""
        of_ours = {"loop": "decide", "reason": "Bug"}
        return self.context.telemetry.registry.get_sample_value("weft_pass_failures_total", of_ours) or 0.0


class Turns:
    """Passes one after the other, and an end."""

    def __init__(self, times: int) -> None:
        self._left = times

    async def wait(self, _: float) -> bool:
        """At once."""
        if self._left == 0:
            raise Over
        self._left -= 1
        return True


@pytest.fixture
def cluster() -> Cluster:
    """Two pools of two replicas each."""
    found = Cluster()
    for name in ("chat", "code"):
        found.edit(pool_body(name, 2))
    found.turn()
    assert [2, 2] == [len(found.places(name)) for name in ("chat", "code")]
    return found


def misread() -> Json:
    return pool_body("chat", 3, workload=Poisoned(inputTokens=1))


def of_no_priority() -> Json:
    return pool_body("chat", 3, pod={"priorityClassName": "lost"})


@pytest.mark.parametrize(("body", "error"), [(misread, "of ours"), (of_no_priority, "lost")])
def test_who_cannot_be_read_is_held_and_says_so_while_others_are_placed(
    cluster: Cluster, body: Callable[[], Json], error: str
) -> None:
    before = cluster.places("chat")
    cluster.edit(body())
    cluster.edit(pool_body("code", 3))
    cluster.turn(3)
    assert 3 == len(cluster.places("code"))
    assert before == cluster.places("chat")
    planned = cluster.planned("chat")
    assert ("False", "HoldNotPlanned") == (planned["status"], planned["reason"])
    assert f"KeyError: '{error}'" in planned["message"]
    assert cluster.failures


def test_it_is_read_again_once_it_is_edited(cluster: Cluster) -> None:
    cluster.edit(misread())
    cluster.turn()
    cluster.edit(pool_body("chat", 3))
    cluster.turn()
    assert 3 == len(cluster.places("chat"))
    assert "True" == cluster.planned("chat")["status"]


def test_what_stands_for_it_elsewhere_heals_without_an_edit(cluster: Cluster) -> None:
    cluster.edit(of_no_priority())
    cluster.turn()
    cluster.classes["lost"] = 7  # somebody made it
    cluster.turn()
    assert 3 == len(cluster.places("chat"))


def test_whose_status_cannot_be_read_is_left_alone_and_told_in_an_event(cluster: Cluster) -> None:
    """Decided on without it, all that it has would be given up."""
    cluster.edit({**pool_body("chat", 3), "status": Poisoned(cluster.status("chat"))})
    before = cluster.resources.body("uid-chat")
    cluster.edit(pool_body("code", 3))
    cluster.turn(2)
    assert 3 == len(cluster.places("code"))
    assert before is cluster.resources.body("uid-chat")
    told = [explanation for name, explanation in cluster.told if name == "chat" and "mistake" in explanation.message]
    assert [Reason.HoldNotPlanned] == [each.reason for each in told]
    assert 1 == cluster.failures


def test_converging_sees_all_others_and_leaves_it_alone_too(cluster: Cluster) -> None:
    """Who has no record gets no pass, so that nothing of it is deleted."""
    cluster.edit({**pool_body("chat", 3), "status": Poisoned(cluster.status("chat"))})
    view = Viewer(cluster.context).view()
    assert {"uid-code"} == view.pools.keys()
    cluster.edit(misread())
    cluster.edit({**misread(), "status": {"assignments": cluster.places("code")}})
    held = Viewer(cluster.context).view().pools["uid-chat"]
    assert held.spec is None
    assert 2 == len(held.status.assignments)


def test_a_split_goes_with_its_half() -> None:
    """S6: the other half stays as it is, and nobody takes the pair for half of one."""
    cluster = Cluster()
    split = {**pool_body("pair", 1), "kind": "PDSplit"}
    split["spec"] = {"model": split["spec"]["model"], "workload": {"requestsPerSecond": 1}}
    cluster.edit(split)
    owner = {"apiVersion": API_VERSION, "kind": "PDSplit", "uid": "uid-pair", "name": "pair", "controller": True}
    for name, role, status in (("pair-prefill", "Prefill", {}), ("pair-decode", "Decode", Poisoned(a=1))):
        half = pool_body(name, 1, role=role)
        half["metadata"]["ownerReferences"] = [owner]
        cluster.edit({**half, "status": status})
    cluster.turn()
    assert [] == cluster.places("pair-prefill")
    assert "HoldNotPlanned" == cluster.planned("pair-prefill")["reason"]
    view = Viewer(cluster.context).view()
    assert {"uid-pair-prefill"} == view.pools.keys()
    assert not view.splits


def test_whose_metrics_cannot_be_shown_is_decided_on_and_told_of(cluster: Cluster) -> None:
    poison: Any = "nobody shows this"
    cluster.observations["uid-chat"] = PoolObservation(2, 0, 0.0, kv_usage=poison)
    for name in ("chat", "code"):
        cluster.edit(pool_body(name, 3))
    cluster.turn(2)
    assert [3, 3] == [len(cluster.places(name)) for name in ("chat", "code")]
    assert 0 == cluster.failures  # nobody has read them yet
    page = cluster.context.telemetry.text().decode().splitlines()
    assert 'weft_pool_assigned_replicas{namespace="team",pool="code"} 3.0' in page
    cluster.turn()
    told = {
        explanation.reason for name, explanation in cluster.told if name == "chat" and "mistake" in explanation.message
    }
    assert {Reason.MetricsMissing} == told
    assert 1 == cluster.failures
    cluster.turn()
    assert 1 == cluster.failures


def test_decisions_are_written_whatever_metrics_and_records_stumble_over(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "records")
    cluster.edit(pool_body("chat", 2))
    cluster.context.telemetry.show = None  # nothing that can be called
    cluster.observations["uid-else"] = PoolObservation(1, 0, 0.0, kv_usage=object())  # type: ignore[arg-type]
    cluster.turn()
    assert 2 == len(cluster.places("chat"))
    assert 2 == cluster.failures


def test_a_pass_that_ends_with_an_error_is_recorded_too(tmp_path: Path) -> None:
    """It is about nobody, so that no pool is left out, and all of them wait."""
    cluster = Cluster(tmp_path)
    cluster.edit(pool_body("chat", 2))
    cluster.context.catalog = None
    cluster.turn()
    assert 1 == cluster.failures
    (path,) = tmp_path.iterdir()
    told = json.loads(gzip.decompress(path.read_bytes()))
    assert {"weft", "snapshot", "error", "decisions"} == told.keys()
    assert ["chat"] == [each["key"]["name"] for each in told["snapshot"]["pools"]]
    assert "AttributeError" in told["error"]
    assert told["decisions"] is None


def unreadable(pool: str) -> PodRecord:
    """A pod of a pool over which reading lost replicas back stumbles."""
    of_ours: Any = "of ours"
    return PodRecord(
        *("team", f"{pool}-x", "u-x", PodPhase.Running, "b-5", ()), PodIdentity(f"uid-{pool}", of_ours, 0, "")
    )


def test_whose_lost_replicas_cannot_be_read_back_is_left_alone_until_they_can(cluster: Cluster) -> None:
    """Without them it would look as if all of them were to go; its pods are what changes, and no edit is asked for."""
    before = cluster.places("chat")
    cluster.pods = (unreadable("chat"),)
    for name in ("chat", "code"):
        cluster.edit(pool_body(name, 3))
    cluster.turn(2)
    assert (before, 3) == (cluster.places("chat"), len(cluster.places("code")))
    assert {"uid-code"} == Viewer(cluster.context).view().pools.keys()
    told = [explanation for name, explanation in cluster.told if name == "chat" and "mistake" in explanation.message]
    assert [Reason.HoldNotPlanned] == [each.reason for each in told]
    cluster.pods = ()
    cluster.turn()
    assert 3 == len(cluster.places("chat"))


def test_a_split_whose_half_cannot_be_read_back_is_left_alone_with_it() -> None:
    cluster = Cluster()
    split = {**pool_body("pair", 1), "kind": "PDSplit"}
    split["spec"] = {"model": split["spec"]["model"], "workload": {"requestsPerSecond": 1}}
    cluster.edit(split)
    owner = {"apiVersion": API_VERSION, "kind": "PDSplit", "uid": "uid-pair", "name": "pair", "controller": True}
    for name, role in (("pair-prefill", "Prefill"), ("pair-decode", "Decode")):
        half = pool_body(name, 1, role=role)
        half["metadata"]["ownerReferences"] = [owner]
        cluster.edit(half)
    cluster.pods = (unreadable("pair-decode"),)
    cluster.turn()
    assert "HoldNotPlanned" == cluster.planned("pair-prefill")["reason"]
    view = Viewer(cluster.context).view()
    assert {"uid-pair-prefill"} == view.pools.keys()
    assert not view.splits
