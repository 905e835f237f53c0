"""The options of an operator process."""

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
    """Settings of one operator process; the defaults are those of production.

    `kubeconfig` and `context`: if both are None, the service account inside a cluster, else the usual kubeconfig.
    `namespaces`: empty serves the whole cluster. `prometheus_url`: None scrapes the engines directly. `port` serves
    /healthz, /readyz and /metrics; 0 picks a free one. `tick_seconds`: how often to decide without a change;
    `metrics_seconds`: between collections; `resync_seconds`: between full passes over all resources; `writers`: most
    pods that passes create or release concurrently; `writes_per_second` and `burst_writes` limit all writes.
    `moves_per_hour` and `moves_at_once` limit how many replicas start to move to make room for others; 0 moves none.
    `relaxations` are what pods may do beyond Pod Security `restricted` if their resource asks for it.
    `leader_elect`: share a Lease with other operators, and stand by while another one holds it.
    `record` is a folder for decision records of at most `record_megabytes` in all; None records nothing.
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
    leader_elect: bool = False
    record: Path | None = None
    record_megabytes: int = 512

    def __post_init__(self) -> None:
        """Check that times and rates are above zero and that there is a worker; raises `Invalid` naming the field."""
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
        """How many replicas the administrator allows to move."""
        return MoveBudget(self.moves_per_hour, self.moves_at_once)


_TIMES = ("tick_seconds", "metrics_seconds", "resync_seconds", "relist_seconds")
_ABOVE_ZERO = (*_TIMES, "workers", "writers", "writes_per_second", "record_megabytes")
