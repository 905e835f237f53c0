"""One pass over one resource: look, converge, carry out, write the status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from weft.apply import NameTaken, Unanswered
from weft.control.converging.carrying_out import Carrier, FailedPass, Held, everything_goes
from weft.control.statuses.status_writer import StatusWriter
from weft.converge import Heard, converge_pool, converge_split
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition, SplitProgress
from weft.domain.stumbling import Stumbled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.control.context import Context
    from weft.control.converging.view import View
    from weft.converge import Convergence
    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
    from weft.domain.status import PoolProgress


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """The object being converged, and at which version."""

    key: ResourceKey
    generation: int
    version: int


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier passes over this resource found: the refusal that still backs off, if any.

    `patient` is set while an absent webhook or a failing API server has not lasted long enough to be reported. `chosen`
    are pods that could not be taken out of routing in the last pass, by a refusal that lasts.
    """

    known: FailedPass | None = None
    patient: bool = True
    chosen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Converged:
    """The result of a pass. A refusal stays in the status until it is resolved; `again_seconds` as in `Convergence`."""

    generation: int
    refused: FailedPass | None = None
    again_seconds: float | None = None


class Converger:
    """Converges resources in worker threads; keeps nothing between passes."""

    def __init__(self, context: Context) -> None:
        """Uses the writers of `context`."""
        self._context = context
        self._statuses = StatusWriter(context)
        self._carrier = Carrier(context.writer.carry_out, context.writing, context.options.writers)

    def converge(self, view: View, uid: str, before: Before) -> Converged:
        """Run one pass over a pool or split of the view, without what is held back by a back-off.

        A bug of ours ends the pass, and is reported in an event.
        """
        pool = view.pools.get(uid)
        try:
            return self._pool(view, pool, before) if pool is not None else self._split(view, view.splits[uid], before)
        except Exception as error:
            key = pool.key if pool is not None else view.splits[uid].key
            self._context.events.record(key, Stumbled((uid,), error).explanation, warns=True)
            raise

    def _pool(self, view: View, pool: PoolRecord, before: Before) -> Converged:
        if pool.deleting:
            return Converged(pool.generation)
        pods, objects = self._told_of(view.pods_near(pool)), view.objects.get(pool.key.namespace, ())
        told = self._context.collector.engines(pool.key.uid, leaving(pool, pods)) if self._context.observed else None
        heard = Heard(self._context.clock.now(), told, before.chosen)
        done = converge_pool(pool, view.fabric, pods, objects, heard)
        return self._finish(ObjectVersion(pool.key, pool.generation, view.versions[pool.key.uid]), done, before)

    def _split(self, view: View, split: SplitRecord, before: Before) -> Converged:
        if split.deleting:
            return Converged(split.generation)
        children = view.children(split.key.uid)
        pods = self._told_of(pod for child in children for pod in view.pods.get(child.key.uid, ()))
        objects = view.objects.get(split.key.namespace, ())
        done = converge_split(split, children, objects, pods, self._context.clock.now())
        return self._finish(ObjectVersion(split.key, split.generation, view.versions[split.key.uid]), done, before)

    def _told_of(self, pods: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
        return self._context.downloads.told_of(pods)

    def _finish(
        self,
        subject: ObjectVersion,
        done: Convergence[PoolProgress] | Convergence[SplitProgress],
        before: Before,
    ) -> Converged:
        known = before.known
        tell = partial(self._context.events.record, subject.key)
        refused = self._carrier.carry_out(done.actions, known, tell)
        lasting = None if known is None or known.is_tried_each_pass else known
        passes = refused is None or isinstance(refused.error, Retry)
        problem = worth_telling(lasting if passes else refused, before)
        progress = with_problem(reachable(done.progress, subject.key, problem), problem)
        try:
            self._statuses.write_progress(subject.key, progress, subject.version, self._context.clock.now())
        except WeftError as error:
            held = known.held if known is not None else Held()
            held = held.unasked("status", subject.key.kind) if isinstance(error, Unanswered) else held
            refused = refused or FailedPass(error, held)
        problem = worth_telling(refused, before)
        if problem is not None and not isinstance(problem, Retry) and not everything_goes(problem):
            self._context.events.record(subject.key, Explanation(problem.reason, problem.message))
        return Converged(subject.generation, refused, done.again_seconds)


def leaving(pool: PoolRecord, pods: Iterable[PodRecord]) -> set[str]:
    """Names of the pods of replicas that no longer have an assignment."""
    assigned = {each.replica for each in pool.status.assignments}
    return {pod.name for pod in pods if pod.identity is not None and pod.identity.replica not in assigned}


def worth_telling(refused: FailedPass | None, before: Before) -> WeftError | None:
    """The error to report, None if there is none or it may pass in a moment."""
    quiet = refused is None or (before.patient and isinstance(refused.error, Unanswered))
    return None if refused is None or quiet else refused.error


def reachable(
    progress: PoolProgress | SplitProgress, key: ResourceKey, problem: WeftError | None
) -> PoolProgress | SplitProgress:
    """The progress, without an address if its Service turned out to be somebody else's, who gets the requests then.

    The caches show only objects with Weft's label.
    """
    if not isinstance(problem, NameTaken) or (problem.kind, problem.name) != ("Service", key.name):
        return progress
    not_ready = Condition("Ready", "False", Explanation(problem.reason, problem.message))
    conditions = tuple(
        not_ready if (each.kind, each.status) == ("Ready", "True") else each for each in progress.conditions
    )
    if isinstance(progress, SplitProgress):
        return replace(progress, url=None, serving_generation=None, conditions=conditions)
    return replace(progress, url=None, conditions=conditions)


# Of what is not there yet a refusal says why.
_NOTHING_KNOWN = frozenset({Reason.ReplicasStarting, Reason.ServiceMissing})


def with_problem(progress: PoolProgress | SplitProgress, problem: WeftError | None) -> PoolProgress | SplitProgress:
    """The progress with a refusal as its `Stalled` condition, which kstatus reads as failed.

    It is also what `Ready` waits for where that knows no other reason: nothing starts of what was refused. In a
    namespace that is being deleted nothing stays ready, and nobody looks again.
    """
    if problem is None or isinstance(problem, Retry):
        return progress
    why = Explanation(problem.reason, problem.message)
    kept = (each for each in progress.conditions if each.kind not in {"Stalled", "Reconciling"})
    goes = everything_goes(problem)
    told = (Condition("Ready", "False", why) if _is_told_by(each, goes=goes) else each for each in kept)
    return replace(progress, conditions=(*told, Condition("Stalled", "True", why)), url=None if goes else progress.url)


def _is_told_by(condition: Condition, *, goes: bool) -> bool:
    """Whether a refusal is the better reason of a condition: nothing starts, or everything `goes`."""
    return condition.kind == "Ready" and (goes or condition.explanation.reason in _NOTHING_KNOWN)
