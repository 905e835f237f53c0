"""Changes of a running pair, each an order and the wait for its end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubernetes import client

from e2e.chaos.eyes import is_ready
from e2e.chaos.report import Phase
from e2e.cluster.waiting import eventually
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from e2e.chaos.eyes import Engine, Eyes
    from e2e.chaos.traffic import Traffic
    from e2e.team import Json, Team

NAME = "pair"
ROLES = ("prefill", "decode")
CHANGE_SECONDS = 900.0  # two engines start beside eight streams, and streams of 400 tokens drain one after the other
GROWTH_SECONDS = 120.0


@dataclass(slots=True)
class Pair:
    """A split under traffic; `spec` is what was applied last."""

    team: Team
    eyes: Eyes
    traffic: Traffic
    spec: Json
    phases: list[Phase]
    say: Callable[[str], None]

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Note a change: KV has to move before it and after it."""
        phase = Phase(name, time.monotonic())
        phase.note(self.eyes.counted())
        self.phases.append(phase)
        self.say(name)
        try:
            yield phase
        finally:
            phase.ended = time.monotonic()
            phase.note(self.eyes.counted())
        self.wait_until_kv_moves()
        phase.note(self.eyes.counted())

    def wait_until_kv_moves(self) -> None:
        """Return once decode pods have fetched more than they had when this was asked."""
        before = self.eyes.received()
        eventually(lambda: self.eyes.received() > before, "KV moves", timeout_seconds=GROWTH_SECONDS)

    def wait(self, observe: Callable[[], object], what: str) -> None:
        """Wait for the end of a change."""
        eventually(observe, what, timeout_seconds=CHANGE_SECONDS)

    def scale(self, counts: dict[str, int]) -> None:
        """Order counts by role, and wait for them."""
        for role, count in counts.items():
            self.spec["spec"][role] = {"scaling": {"minReplicas": count, "maxReplicas": count}}
        self.team.apply(self.spec)
        self.wait_for(counts)

    def wait_for(self, counts: dict[str, int]) -> None:
        """Wait until just so many of each half are there, all of which have served a request."""
        self.wait(lambda: all(self._serves_with(role, count) for role, count in counts.items()), f"{counts} serve")

    def _serves_with(self, role: str, count: int) -> bool:
        staying = self.eyes.staying(role)
        return len(staying) == count == len(self.eyes.present(role)) and all(map(served, staying))

    def wait_until_all_have_met(self) -> None:
        """Wait until each prefill engine has sent KV to each decode engine, or they would shake hands only later."""

        def have_met() -> bool:
            present = [{engine.address for engine in self.eyes.staying(role)} for role in ROLES]
            return set(itertools.product(*present)) <= {(done.prefill, done.decode) for done in [*self.traffic.results]}

        self.wait(have_met, "each prefill engine has met each decode engine")

    def roll(self, arguments: list[str]) -> None:
        """Have another generation take the place of this one, and wait until nothing of the old is left."""
        before = {engine.pair for role in ROLES for engine in self.eyes.present(role)}
        self.spec["spec"]["engine"]["args"] = arguments
        self.team.apply(self.spec)

        def only_new() -> bool:
            left = {engine.pair for role in ROLES for engine in self.eyes.present(role)}
            return before.isdisjoint(left) and all(self._serves_with(role, 1) for role in ROLES)

        self.wait(only_new, "only the new generation is left, and serves")
        self.wait(lambda: len(self.routers()) == 2 and len({pair_of(pod) for pod in self.routers()}) == 1, "one front")

    def routers(self) -> list[Json]:
        """Pods of the front, those that leave too."""
        listing = client.CoreV1Api(self.team.api).list_namespaced_pod(
            self.team.namespace, label_selector=labels.FRONT_OF
        )
        plain: Json = self.team.api.sanitize_for_serialization(listing)
        items: list[Json] = plain["items"]
        return items

    def delete_a_router(self) -> None:
        """Delete one as a person does, and wait until it is gone and another answers."""
        names = {pod["metadata"]["name"] for pod in self.routers()}
        self.team.kubectl("delete", "pod", min(names), "--wait=false")

        def replaced() -> bool:
            routers = self.routers()
            now = {pod["metadata"]["name"] for pod in routers}
            return min(names) not in now and len(now) == len(names) and all(map(is_ready, routers))

        self.wait(replaced, "another router answers")

    def evict(self, engine: Engine) -> None:
        """Ask for its eviction, as a node drain does."""
        body = client.V1Eviction(metadata=client.V1ObjectMeta(name=engine.name, namespace=self.team.namespace))
        client.CoreV1Api(self.team.api).create_namespaced_pod_eviction(engine.name, self.team.namespace, body)


def served(engine: Engine) -> bool:
    """Whether it has worked on a prompt."""
    return engine.last.received + engine.last.computed > 0


def pair_of(pod: Json) -> str:
    """The generation of a pod."""
    return str(pod["metadata"]["labels"][labels.PAIR])


def kill(engine: Engine) -> None:
    """Kill every process of an engine at once, as a fault of its machine does."""
    _signal(engine, b"vllm", signal.SIGKILL)


@contextlib.contextmanager
def stalled(engines: Sequence[Engine]) -> Iterator[None]:
    """Freeze what computes in engines while the context lasts: they take requests, and no answer comes back."""
    for engine in engines:
        assert _signal(engine, b"vllm::", signal.SIGSTOP), f"nothing of {engine.name} was frozen"
    try:
        yield
    finally:
        for engine in engines:
            _signal(engine, b"vllm::", signal.SIGCONT)


def _signal(engine: Engine, named: bytes, number: signal.Signals) -> int:
    """To processes of an engine by a part of their names, in small letters, from outside of its pod; how many."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            groups, command = (folder / "cgroup").read_text(), (folder / "cmdline").read_bytes()
            if engine.uid in groups and named in command.lower():
                os.kill(int(folder.name), number)
                found += 1
    return found
