"""The operator as it runs, but for its watches and its engines' metrics, around a played API server.

Both loops read their own caches, carry their actions out, and write statuses on the version that they looked at.
"""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.holding.edited import Edited
from tests.holding.operation import A_DAY, TEAM, Died
from tests.holding.played_server import PlayedServer
from tests.structural import faults
from weft.api import crds
from weft.apply import Writer
from weft.catalog import load
from weft.control.converging.one_pass import Before, Converger
from weft.control.converging.view import Viewer
from weft.control.deciding.decide_loop import DecideLoop
from weft.control.health import Pulse
from weft.control.metrics.telemetry import Telemetry
from weft.control.options import RunOptions
from weft.domain import labels
from weft.domain.action import Action, DeletePod
from weft.domain.queueing import Queueing
from weft.domain.shape import EngineName
from weft.engines import LeavesBy, adapter_for, engine_label
from weft.observe.custom_resources.cache import ResourceCache, Seen
from weft.observe.snapshot_builder import Sources

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import ResourceKey

Json = dict[str, Any]
NEVER = 1e9  # seconds until a pass that nothing asks for
POOL_SCHEMA = crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
ASKED = {engine_label(each) for each in EngineName if adapter_for(each).leaves_front_by is LeavesBy.Asking}


class Killed(BaseException):  # no `Exception`: no loop goes on after it
    """The process ended after a write."""


class _OnePass:
    """Wakes a loop once; `slept` is for how long it would sleep then."""

    slept: float | None = None

    async def wait(self, seconds: float) -> bool:
        if self.slept is not None:
            self.slept = seconds
            raise _Over
        self.slept = 0.0
        return True


class _Over(Exception):  # noqa: N818 - no error
    """The pass is over."""


@dataclass
class Whole(Edited):
    """Pools that are edited, and everything between their bodies and the cluster."""

    server: PlayedServer = field(init=False)
    resources: ResourceCache = field(init=False)
    context: Any = field(init=False)
    loop: DecideLoop = field(init=False)
    wakes_after: float = NEVER
    converging: str = ""

    def __post_init__(self) -> None:
        self.server = PlayedServer(self.cluster, self.bodies, self._about_to, self._count, self._seen)
        self.restart()

    def restart(self) -> None:
        """A new process lists everything."""
        super().restart()
        self.server.answers.clear()
        self.resources = ResourceCache(lambda _: None)
        bodies = tuple(copy.deepcopy(body) for body in self.bodies.values())
        self.resources.replace(Seen("InferencePool", None, self.server.version, bodies))
        self.context = self._context()
        self.loop = DecideLoop(self.context, SimpleNamespace())  # type: ignore[arg-type]

    def _context(self) -> Any:  # noqa: ANN401 - what stands for a Context
        cluster, sender = self.cluster, self.server
        seen: Any = SimpleNamespace(
            nodes=cluster.node_records,
            pods=cluster.pod_records,
            objects=lambda: cluster.objects_of(TEAM),
            reports=lambda: self.reports,
            queueing=Queueing,
            quotas=tuple,
            shown_pairs=dict,
            taken_routes=frozenset,
            lacks_for_gateways=None,
            blind_seconds=0.0,
        )
        classes: Any = SimpleNamespace(value=lambda _: 0, preempts=lambda _: True)
        logs: Any = SimpleNamespace(add=lambda pods, _: tuple(pods))
        return SimpleNamespace(
            options=RunOptions(tick_seconds=NEVER),
            catalog=load(),
            clock=SimpleNamespace(now=lambda: cluster.now),
            cluster=seen,
            resources=self.resources,
            sources=Sources(seen, self.resources, SimpleNamespace(), classes, logs),  # type: ignore[arg-type]
            collector=SimpleNamespace(observations=dict, engines=lambda *_: {}),
            downloads=SimpleNamespace(told_of=tuple),
            past=SimpleNamespace(found=lambda _: {}),
            writer=Writer(sender, (), lambda *_: None),  # type: ignore[arg-type]
            events=self,
            telemetry=Telemetry(),
            pulse=Pulse(),
            executor=None,
            writing=SimpleNamespace(map=map),
            observed=True,
        )

    def record(self, key: ResourceKey, explanation: Explanation, *, warns: bool = False) -> None:  # noqa: ARG002
        """Take an event; none tells of a mistake of Weft's."""
        assert "Weft made a mistake" not in explanation.message, (key, explanation)

    def decide(self) -> None:
        """One turn of the loop."""
        once = _OnePass()
        self.loop._wake = once  # type: ignore[assignment]
        try:
            asyncio.run(self.loop.run())
        except Killed:
            raise Died from None
        except _Over:
            self.wakes_after = NEVER if once.slept is None else once.slept
        of_ours = {"loop": "decide", "reason": "Bug"}
        assert not self.context.telemetry.registry.get_sample_value("weft_pass_failures_total", of_ours)

    def converge(self, name: str) -> None:
        """One pass over one pool."""
        self.cluster.revision += 1
        self.context.cluster.revision = time.monotonic()  # a view of now
        self.converging = name
        try:
            Converger(self.context).converge(
                Viewer(self.context).view(), self.bodies[name]["metadata"]["uid"], Before()
            )
        except Killed:
            raise Died from None

    def rest(self, most_turns: int = 120) -> None:
        for _ in range(most_turns):
            before = self.writes
            self.turn()
            if before == self.writes:
                if self.wakes_after > A_DAY:
                    return
                self.cluster.now += self.wakes_after
        raise AssertionError(f"not at rest after {most_turns} turns: {self.describe()}")

    # what users do

    def make(self, name: str) -> None:
        if name not in self.bodies:
            super().make(name)
            self.server.publish(self.bodies[name])

    def unmake(self, name: str) -> None:
        body = self.bodies.get(name)
        super().unmake(name)
        if body is not None:
            self.server.version += 1
            self.server.parts.pop(body["metadata"]["uid"], None)
            self.resources.drop(body["metadata"]["uid"], self.server.version)

    def edit(self, name: str, **fields: Any) -> None:  # noqa: ANN401 - any field
        super().edit(name, **fields)
        self.server.publish(self.bodies[name])

    # what is looked at

    def _seen(self, body: Json) -> None:
        """Each version of a pool; its status is as the definition has it."""
        assert not faults(POOL_SCHEMA["status"], body.get("status", {})), body["status"]
        self.resources.put(body)

    def _about_to(self, action: Action) -> None:
        """S3 and S10, and that a replica that serves leaves its front before it is deleted."""
        self._check(action, self.converging)
        if isinstance(action, DeletePod):
            pod = self.cluster.pods[action.name]
            tags = pod["metadata"]["labels"]
            chosen = tags.get(labels.ROUTED) == "true" and tags[labels.ENGINE_NAME] not in ASKED
            assert not (chosen and self.cluster.serves(pod)), f"{action.name} is deleted while its front chooses it"

    def _count(self) -> None:
        self.writes += 1
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left <= 0:
                raise Killed
