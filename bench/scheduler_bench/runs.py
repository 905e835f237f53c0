"""One scenario by one placer, watched until nothing moves any more, as a row of figures."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.scheduler_bench import plain, pools, stage, trouble
from bench.scheduler_bench.counting import NOT_COUNTED, counted, writes
from bench.scheduler_bench.sightings import gangs_of, placed, placed_trays, serving
from bench.scheduler_bench.watching import Lookout
from e2e.operator_process import OperatorProcess
from weft.apply import TokenBucket
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scheduler_bench.counting import Write
    from bench.scheduler_bench.demand import Scenario
    from bench.scheduler_bench.sightings import Gang
    from e2e.cluster.control_plane import ControlPlane

Row = dict[str, Any]
LOOK_SECONDS = 0.25
CALM_SECONDS = 20.0  # without news, when no gang is partly bound
WEDGE_SHOWS_SECONDS = 65.0  # without news, when one is
LONGEST_SECONDS = 180.0
OPERATOR_OPTIONS = ("--tick", "1", "--metrics-interval", "2")


@dataclass(frozen=True, slots=True)
class Limit:
    """Writes that a client may send."""

    per_second: int
    burst: int

    @property
    def options(self) -> tuple[str, ...]:
        """The same for the operator."""
        return ("--writes-per-second", str(self.per_second), "--burst-writes", str(self.burst))


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: `placer` is plain or weft."""

    scenario: Scenario
    placer: str
    limit: Limit

    def __str__(self) -> str:
        """For people."""
        return f"{self.placer}, {self.limit.per_second} writes/s"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a run; times are epoch seconds."""

    asked: float
    ended: float
    gangs: tuple[Gang, ...]
    writes: tuple[Write, ...]


def run(cluster: ControlPlane, case: Case, name: str) -> Row:
    """One row; the name is that of a namespace which is made for it."""
    identify, user = (plain.identify, plain.USER) if case.placer == "plain" else (pools.identify, pools.USER)
    with stage.namespace(cluster, name) as namespace, cluster.api_client() as api, _operator(cluster, case):
        begins = cluster.audit_log.stat().st_size
        with Lookout(api, namespace, identify) as lookout:
            asked = time.time()
            with trouble.during(cluster, namespace, case.scenario.trouble) as made:
                _ask(cluster, namespace, case)
                while not (made.is_set() and over(lookout, case.scenario, asked)):
                    time.sleep(LOOK_SECONDS)
                ended, gangs = time.time(), gangs_of(lookout.pods())
        found, _ = writes(cluster.audit_log, user, begins)
    return row(case, Seen(asked, ended, gangs, tuple(each for each in found if each.asked <= ended)))


@contextlib.contextmanager
def _operator(cluster: ControlPlane, case: Case) -> Iterator[None]:
    if case.placer == "plain":
        yield
        return
    with OperatorProcess.start(cluster, (*OPERATOR_OPTIONS, *case.limit.options)):
        yield


def _ask(cluster: ControlPlane, namespace: str, case: Case) -> None:
    if case.placer == "plain":
        plain.create(cluster, namespace, case.scenario.gangs, TokenBucket(case.limit.per_second, case.limit.burst))
    else:
        pools.create(cluster, namespace, case.scenario.sizes)


def over(lookout: Lookout, scenario: Scenario, asked: float) -> bool:
    """Whether nothing more is to be expected."""
    now, gangs = time.time(), gangs_of(lookout.pods())
    if scenario.trouble is None and serving(gangs, scenario.sizes, now) == len(scenario.gangs):
        return True
    patience = WEDGE_SHOWS_SECONDS if any(gang.partial(now) for gang in gangs) else CALM_SECONDS
    if scenario.trouble is not None:
        patience = WEDGE_SHOWS_SECONDS  # what a node's silence does shows only after a while
    return now - max(lookout.changed, asked) > patience or now - asked > LONGEST_SECONDS


def row(case: Case, seen: Seen) -> Row:
    """Figures of a run, seconds from the decision."""
    wanted, gangs, pods = case.scenario.sizes, seen.gangs, case.scenario.pods
    decided = decision(seen.writes)
    count = sum(wanted.values())
    whole = placed(gangs, wanted, seen.ended) == count
    ready = serving(gangs, wanted, seen.ended) == count
    bound = [pod.bound for gang in gangs for pod in gang.pods if pod.bound is not None]
    served = [pod.ready for gang in gangs for pod in gang.pods if pod.ready is not None]
    needed = [each for each in seen.writes if each.resource not in NOT_COUNTED]
    return {
        "scenario": case.scenario.name,
        "placer": case.placer,
        "writes_per_second": case.limit.per_second,
        "burst_writes": case.limit.burst,
        "gangs": count,
        "pods": pods,
        "load": round(case.scenario.load, 3),
        "decided_after_seconds": _since(seen.asked, decided),
        "all_created_seconds": _since(decided, _last_created(seen.writes, pods)),
        "first_bound_seconds": _since(decided, min(bound, default=None)),
        "all_bound_seconds": _since(decided, max(bound)) if whole else None,
        "all_ready_seconds": _since(decided, max(served)) if ready else None,
        "observed_seconds": _since(seen.asked, seen.ended),
        "placed": placed(gangs, wanted, seen.ended),
        "placed_share": round(placed(gangs, wanted, seen.ended) / count, 4),
        "placed_gpu_share": round(placed_trays(gangs, wanted, seen.ended) / pods, 4),
        "serving_share": round(serving(gangs, wanted, seen.ended) / count, 4),
        "wedged": sum(gang.wedged(seen.ended) for gang in gangs),
        "longest_partial_seconds": round(max((g.longest_partial_seconds(seen.ended) for g in gangs), default=0.0), 2),
        "pods_created": counted(needed).get("create pods", 0),
        "writes": counted(needed),
        "writes_per_pod": round(len(needed) / pods, 3),
        "events": len(seen.writes) - len(needed),
    }


def decision(found: Sequence[Write]) -> float | None:
    """When it was known where pods go: with Weft's first assignments, or with the first plain pod."""
    decided = [each.asked for each in found if each.manager == labels.DECIDE_MANAGER]
    return min(decided or [each.asked for each in found], default=None)


def _last_created(found: Sequence[Write], pods: int) -> float | None:
    """When the last of so many pods was there; None where not all came."""
    answered = [each.answered for each in found if (each.verb, each.resource) == ("create", "pods")]
    return max(answered) if len(answered) >= pods else None


def _since(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(end - start, 2)
