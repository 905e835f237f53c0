"""What pods of a split and their own metrics say, read twice a second: pods go, and what they counted with them."""

from __future__ import annotations

import dataclasses
import http.client
import operator
import re
import threading
import time
import urllib.error
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from e2e.team import Endpoint
from weft.domain import labels

if TYPE_CHECKING:
    from e2e.team import Json, Team

INTERVAL_SECONDS = 0.5
ENGINE_PORT = 8000
_SAMPLE = re.compile(r"^(vllm:\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_SOURCE = re.compile(r'source="(\w+)"')
_SUMMED = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_in_use",
    "vllm:nixl_num_failed_transfers_total": "failed_transfers",
    "vllm:nixl_num_kv_expired_reqs_total": "expired",
}
_BY_SOURCE = {"external_kv_transfer": "received", "local_compute": "computed"}


@dataclass(slots=True)
class Counts:
    """What an engine says of itself; `received` and `computed` are prompt tokens, `kv_in_use` a part of its cache."""

    running: float = 0.0
    waiting: float = 0.0
    kv_in_use: float = 0.0
    failed_transfers: float = 0.0
    expired: float = 0.0
    received: float = 0.0
    computed: float = 0.0

    @classmethod
    def read(cls, metrics: str) -> Self:
        """Sum over the series of each name in the text of `/metrics`."""
        found = cls()
        for name, tags, value in _SAMPLE.findall(metrics):
            which = _SUMMED.get(name)
            if name == "vllm:prompt_tokens_by_source_total" and (source := _SOURCE.search(tags)):
                which = _BY_SOURCE.get(source[1])
            if which is not None:
                setattr(found, which, getattr(found, which) + float(value))
        return found

    def __add__(self, other: Counts) -> Counts:
        """The sums of both."""
        return Counts(*map(operator.add, dataclasses.astuple(self), dataclasses.astuple(other)))

    @property
    def holds_requests(self) -> bool:
        """Whether it runs one, or keeps KV of one that the other half has not fetched."""
        return self.running > 0 or self.waiting > 0 or self.kv_in_use > 0


@dataclass(slots=True)
class Engine:
    """One engine pod from its first sight on; times are monotonic seconds."""

    name: str
    uid: str
    role: str
    pair: str
    address: str = ""
    ready: bool = False
    deleted: float | None = None
    gone: float | None = None
    read: float | None = None
    last: Counts = field(default_factory=Counts)
    once_deleted: Counts | None = None  # the first that it said after somebody deleted it

    @property
    def stays(self) -> bool:
        """Whether it answers and nobody has told it to go."""
        return self.ready and self.deleted is None and self.gone is None


class Eyes:
    """A thread that looks at the engine pods of a split while the context lasts."""

    def __init__(self, team: Team, split: str) -> None:
        """Look at one split of the team."""
        self.engines: dict[str, Engine] = {}
        self._team, self._split = team, split
        self._stop = threading.Event()
        self._blinded: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="eyes")

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def of(self, role: str) -> list[Engine]:
        """Every pod of a half ever seen, the oldest first; raises `RuntimeError` once nobody looks any more."""
        if self._blinded is not None:
            raise RuntimeError("the thread that looks at engines has ended") from self._blinded
        return [engine for engine in tuple(self.engines.values()) if engine.role == role]

    def staying(self, role: str) -> list[Engine]:
        """Pods of a half that answer and stay."""
        return [engine for engine in self.of(role) if engine.stays]

    def present(self, role: str) -> list[Engine]:
        """Pods of a half that exist, those that start or leave too."""
        return [engine for engine in self.of(role) if engine.gone is None]

    def received(self) -> float:
        """Prompt tokens that all decode pods, gone ones too, have fetched from the other half."""
        return self.counted().received

    def counted(self) -> Counts:
        """What all decode pods, gone ones too, have counted."""
        return sum((engine.last for engine in self.of("decode")), Counts())

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            try:
                self._look()
            except Exception as error:
                self._blinded = error
                raise

    def _look(self) -> None:
        halves = {f"{self._split}-{role}" for role in ("prefill", "decode")}
        pods = [pod for pod in self._team.pods() if pod["metadata"]["labels"][labels.POOL] in halves]
        now, present = time.monotonic(), {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            self._note(pod, now)
        for engine in tuple(self.engines.values()):
            if engine.uid not in present:
                engine.gone = engine.gone or now
            elif engine.address:
                _read(engine)

    def _note(self, pod: Json, now: float) -> None:
        meta = pod["metadata"]
        tags = meta["labels"]
        engine = self.engines.setdefault(
            meta["uid"], Engine(meta["name"], meta["uid"], tags[labels.ROLE], tags[labels.PAIR])
        )
        engine.address = pod["status"].get("podIP") or engine.address
        engine.ready = is_ready(pod)
        if "deletionTimestamp" in meta:
            engine.deleted = engine.deleted or now


def is_ready(pod: Json) -> bool:
    """Whether the kubelet calls a pod ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _read(engine: Engine) -> None:
    """Note what it says now; an engine that starts or has ended says nothing."""
    try:
        text = Endpoint(engine.address, ENGINE_PORT).metrics()
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return
    except (OSError, http.client.HTTPException):
        return
    engine.last, engine.read = Counts.read(text), time.monotonic()
    if engine.deleted is not None and engine.once_deleted is None:
        engine.once_deleted = engine.last
