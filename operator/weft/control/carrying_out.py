"""Actions of one pass onto the cluster: in their order, and those that do not wait for each other together."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from weft.domain.action import CreatePod, ReleasePods
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from weft.domain.action import Action

_TOGETHER = (CreatePod, ReleasePods)  # each is about another pod, or about another replica

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Carrier:
    """How actions are done: one by `do`, up to `largest` together in the threads of `writing`."""

    do: Callable[[Action], None]
    writing: Executor
    largest: int

    def carry_out(self, actions: Iterable[Action], known: WeftError | None) -> WeftError | None:
        """Do the actions and give the first refusal.

        A refusal ends the creation of pods, not the rest; what may pass (`Retry`) ends the pass. So does a namespace
        that is being deleted: with that in its status, the resource is not looked at again (S10). `known` is a refusal
        that still backs off: no pod is created then.
        """
        refusal: WeftError | None = None
        for wave in waves(actions, self.largest):
            if isinstance(wave[0], CreatePod) and (known or refusal):
                continue
            for error in self._errors(wave):
                if isinstance(error, Retry):
                    return refusal or error
                if everything_goes(error):
                    return error
                refusal = refusal or error
        return refusal

    def _errors(self, wave: tuple[Action, ...]) -> list[WeftError]:
        """What was refused of a wave, in its order, once all of it was answered."""
        found = map(self._refusal, wave) if len(wave) == 1 else self.writing.map(self._refusal, wave)
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
    """What goes out together: 1, 2, 4 ... `largest` in a row of pods to create or replicas to release, else one.

    The first goes alone, so that a quota that is used up costs one refusal, not as many as there are pods.
    """
    for kind, alike in groupby(actions, type):
        left, size = [*alike], 1
        while left:
            wave, left = left[:size], left[size:]
            yield tuple(wave)
            size = min(largest, 2 * size) if kind in _TOGETHER else 1


def everything_goes(problem: WeftError) -> bool:
    """Whether the namespace is being deleted, which is nobody's mistake and takes no event."""
    return problem.reason is Reason.NamespaceTerminating
