"""What an operator process is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.apply.token_bucket import BURST_WRITES, WRITES_PER_SECOND
from weft.domain.errors import Invalid
from weft.domain.moves import MoveBudget
from weft.domain.reasons import Reason
from weft.domain.relaxations import CAN_BE_ALLOWED

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of one operator process; every one has the value that production uses.

    `kubeconfig` and `context`: both None inside a cluster means the service account, else the usual kubeconfig.
    `namespaces`: empty serves the whole cluster. `prometheus_url`: None scrapes the engines directly. `port` serves
    /healthz, /readyz and /metrics; 0 takes a free one. `tick_seconds`: how often time alone makes a decision;
    `metrics_seconds`: between collections; `resync_seconds`: between full passes over every resource; `writers`: pods
    that passes create or release at the same time at most; `writes_per_second` and `burst_writes`: most writes of all.
    `moves_per_hour` and `moves_at_once` bound how many replicas begin to move so that others get a place; 0 moves none.
    `relaxations` are what pods may do beyond `restricted` where their resource asks for it.
    `record` is a folder for decision records, at most `record_megabytes` of them; None records nothing.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    prometheus_url: str | None = None
    host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus reach the pod from outside
    port: int = 8080
    tick_seconds: float = 2.0
    metrics_seconds: float = 5.0
    resync_seconds: float = 120.0
    relist_seconds: float = 300.0
    workers: int = 8
    writers: int = 8
    writes_per_second: float = WRITES_PER_SECOND
    burst_writes: float = BURST_WRITES
    instance: str = "weft"
    json_logs: bool = True
    moves_per_hour: int = 0
    moves_at_once: int = 8
    relaxations: tuple[str, ...] = ()
    record: Path | None = None
    record_megabytes: int = 512

    def __post_init__(self) -> None:
        """Times and rates must be above zero, and there must be a worker; raises `Invalid` naming the field."""
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise Invalid(Reason.SpecInvalid, f"{name} must be above zero")
        if self.burst_writes < 1:
            raise Invalid(Reason.SpecInvalid, "burst_writes must be at least 1")
        unknown = [each for each in self.relaxations if each not in CAN_BE_ALLOWED]
        if unknown:
            raise Invalid(Reason.SpecInvalid, f"relaxations {unknown[0]}: allowed are {', '.join(CAN_BE_ALLOWED)}")

    @property
    def budget(self) -> MoveBudget:
        """What the administrator allows to move."""
        return MoveBudget(self.moves_per_hour, self.moves_at_once)


_TIMES = ("tick_seconds", "metrics_seconds", "resync_seconds", "relist_seconds")
_ABOVE_ZERO = (*_TIMES, "workers", "writers", "writes_per_second", "record_megabytes")
