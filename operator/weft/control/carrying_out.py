"""Actions of one pass onto the cluster: in their order, and those that do not wait for each other together."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from weft.domain.action import ApplyObject, CreatePod, ReleasePods
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Reason
from weft.render import COMPUTE_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from weft.domain.action import Action

_TOGETHER = (CreatePod, ReleasePods)  # each is about another pod, or about another replica

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first error of a pass; `of_pods` says that pods wait: one was refused, now or in a pass before."""

    error: WeftError
    of_pods: bool = False


@dataclass(frozen=True, slots=True)
class Carrier:
    """How actions are done: one by `do`, `largest` at the same time in the threads of `writing`."""

    do: Callable[[Action], None]
    writing: Executor
    largest: int

    def carry_out(self, actions: Iterable[Action], *, pods_wait: bool = False) -> Refusal | None:
        """Do the actions and give the first refusal.

        A pod that is refused, or what its replica shares, ends the creation of pods and nothing else; what may pass
        (`Retry`) ends the pass. So does a namespace that is being deleted: with that in its status, the resource is not
        looked at again (rule S10). While the refusal of a pod still backs off (`pods_wait`) none is created.
        """
        first: WeftError | None = None
        for wave in waves(actions, self.largest):
            if pods_wait and isinstance(wave[0], CreatePod):
                continue
            for error in self._errors(wave):
                pods_wait = pods_wait or (is_of_pods(wave[0]) and not isinstance(error, Retry))
                if ends_the_pass(error):
                    return Refusal(first or error if isinstance(error, Retry) else error, pods_wait)
                first = first or error
        return None if first is None else Refusal(first, pods_wait)

    def _errors(self, wave: tuple[Action, ...]) -> list[WeftError]:
        """What was refused of a wave, in its order, once all that went out was answered; the rest stays undone."""
        stopped = threading.Event()

        def attempt(action: Action) -> WeftError | None:
            error = None if stopped.is_set() else self._refusal(action)
            if error is not None and (isinstance(action, CreatePod) or ends_the_pass(error)):
                stopped.set()
            return error

        found = map(attempt, wave) if len(wave) == 1 else self.writing.map(attempt, wave)
        return [error for error in found if error is not None]

    def _refusal(self, action: Action) -> WeftError | None:
        try:
            self.do(action)
        except WeftError as error:
            if not isinstance(error, Retry):
                log.info("%s was refused: %s", type(action).__name__, error)
            return error
        return None


def waves(actions: Iterable[Action], largest: int) -> Iterator[tuple[Action, ...]]:
    """What goes out together: of pods to create or replicas to release 1, 2, 4 ... and all once that is `largest`.

    Everything else goes alone. So does the first pod: a quota that is used up costs one refusal.
    """
    for kind, alike in groupby(actions, type):
        left, size = [*alike], 1
        while left:
            wave, left = left[:size], left[size:]
            yield tuple(wave)
            size = 1 if kind not in _TOGETHER else 2 * size if 2 * size < largest else len(left)


def is_of_pods(action: Action) -> bool:
    """Whether pods would be of no use without it: a pod, or the ComputeDomain that its replica shares."""
    return isinstance(action, CreatePod) or (
        isinstance(action, ApplyObject) and action.body.get("kind") == COMPUTE_DOMAIN[1]
    )


def ends_the_pass(problem: WeftError) -> bool:
    """Whether what comes after it would fare no better."""
    return isinstance(problem, Retry) or everything_goes(problem)


def everything_goes(problem: WeftError) -> bool:
    """Whether the namespace is being deleted, which is nobody's mistake and takes no event."""
    return problem.reason is Reason.NamespaceTerminating
