"""One source of metrics: a pod, by which address it is asked, and what its page is read by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.start_up import MeasuredStart
    from weft.engines import EngineSeries


@dataclass(frozen=True, slots=True)
class Target:
    """One pod whose engine serves metrics. `names` are the families to keep.

    A target that is not `scraped` belongs to others, and is known through Prometheus alone; one that `shares_pod` with
    others is known by scraping alone, as Prometheus' samples do not tell ports apart. `pages` are the other sources
    of the same replica: its other pods that take requests, and their other ports.
    """

    uid: str
    namespace: str
    pod: str
    ip: str
    port: int
    path: str
    names: tuple[str, ...]
    startup_seconds: float | None = None  # from the pod's conditions
    scraped: bool = True
    shares_pod: bool = False
    pages: tuple[Target, ...] = ()
    start: MeasuredStart | None = None  # from the pod's conditions and containers

    @property
    def url(self) -> str:
        """The URL of the engine's metrics; IPv6 addresses get brackets."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"http://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class EngineTarget(Target):
    """A target that is an engine, read by the `series` of what its own pod runs."""

    series: EngineSeries = field(kw_only=True)
    models: frozenset[str] = field(default=frozenset(), kw_only=True)  # names of what the pool serves
    revision: str = field(default="", kw_only=True)  # of what its pod was rendered from
