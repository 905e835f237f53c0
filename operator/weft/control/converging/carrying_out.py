"""Carry out the actions of one pass in order, independent ones concurrently."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from weft.apply import PodContended, RouterKeepsOneWorker, ServerError, Unanswered
from weft.control.told_once import ToldOnce
from weft.domain.action import (
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    ForgetWorker,
    ReleasePods,
    UnroutePod,
)
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Reason
from weft.render import COMPUTE_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from weft.domain.action import Action
    from weft.domain.reasons import Explanation

_TOGETHER = (CreatePod, ReleasePods)  # each is about another pod or replica

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """What is held back until a back-off ends: pods, as one was refused, and requests that were not answered.

    `unanswered` has verb and kind, by which webhooks that are away are configured. `failing` has the object's name,
    too: an API server may fail at one object for ever, or a router keep one engine, and only a second one says that
    the whole kind fails. `chosen` are pods that may not be taken out of routing: that is tried each time, and nothing
    waits for it.
    """

    pods: bool = False
    unanswered: frozenset[tuple[str, str]] = frozenset()
    failing: frozenset[tuple[tuple[str, str], str]] = frozenset()
    chosen: frozenset[str] = frozenset()

    def holds(self, action: Action) -> bool:
        """Whether an action is held back."""
        asked = asked_about(action)
        alike = (self.pods and isinstance(action, CreatePod)) or asked in self.unanswered
        return alike or (asked, _named(action)) in self.failing

    @property
    def hears_nothing(self) -> bool:
        """Whether something is held back because nobody answered."""
        return bool(self.unanswered or self.failing)

    def after(self, action: Action, error: WeftError) -> Held:
        """What is held back after an action was refused; unchanged by a `Retry`."""
        if isinstance(error, Retry):
            return self
        held = replace(self, pods=self.pods or is_of_pods(action))
        if isinstance(action, UnroutePod) and not isinstance(error, Unanswered):
            return replace(held, chosen=held.chosen | {action.name})
        if isinstance(error, ServerError | RouterKeepsOneWorker):
            return held.failed_at(asked_about(action), _named(action))
        return held.unasked(*asked_about(action)) if isinstance(error, Unanswered) else held

    def unasked(self, verb: str, kind: str) -> Held:
        """What is held back after a verb on a kind was not answered."""
        return replace(self, unanswered=self.unanswered | {(verb, kind)})

    def failed_at(self, asked: tuple[str, str], name: str) -> Held:
        """What is held back after an action failed that may for this object alone."""
        held = replace(self, failing=self.failing | {(asked, name)})
        return held.unasked(*asked) if any(each[0] == asked and each[1] != name for each in self.failing) else held


@dataclass(frozen=True, slots=True)
class FailedPass:
    """The first error of a pass, and what is held back since it or an earlier pass."""

    error: WeftError
    held: Held = field(default_factory=Held)

    @property
    def is_tried_each_pass(self) -> bool:
        """Whether nothing is held back because of it: a pass without refusals says that it is over."""
        return self.held == Held(chosen=self.held.chosen)


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carries out actions: one by `do`, up to `largest` concurrently in the threads of `writing`.

    `do` gives False where there was nothing to do. Each refusal is logged once until it changes.
    """

    do: Callable[[Action], object]
    writing: Executor
    largest: int
    told: ToldOnce = field(default_factory=ToldOnce)

    def carry_out(
        self,
        actions: Iterable[Action],
        known: FailedPass | None = None,
        tell: Callable[[Explanation], None] = lambda _: None,
    ) -> FailedPass | None:
        """Carry out the actions and return the first refusal, None without one; `tell` gets the events of what changed.

        A refused pod, or a refused object that its replica needs, ends the creation of pods and nothing else; a `Retry`
        ends the pass, but for a pod that others keep writing to. So does a namespace that is being deleted: with that
        in its status, the resource is not looked at again (rule S10). Actions held back by an earlier refusal (`known`)
        are left out. An unanswered request holds back all like it, a failure of the API server the same object. A pod
        that could not be taken out of routing, and may be at a later try, is not deleted.
        """
        first, held, chosen = None, known.held if known is not None else Held(), set[str]()
        for wave in waves(_asked(actions, held, chosen), self.largest):
            if held.holds(wave[0]):
                chosen |= _stays_chosen(wave[0])
                continue
            if isinstance(wave[0], DeletePod) and wave[0].name in chosen:
                continue
            for action, error in self._errors(wave, tell):
                held = held.after(action, error)
                chosen |= _stays_chosen(action) if isinstance(error, Unanswered | PodContended) else set()
                if ends_the_pass(error):
                    return FailedPass(_more_telling(first, error) if isinstance(error, Retry) else error, held)
                first = _more_telling(first, error)
        return None if first is None else FailedPass(first, held)

    def _errors(self, wave: tuple[Action, ...], tell: Callable[[Explanation], None]) -> list[tuple[Action, WeftError]]:
        """What was refused of a wave, in its order, after all requests sent were answered; the rest stays undone."""
        stopped = threading.Event()

        def attempt(action: Action) -> WeftError | None:
            error = None if stopped.is_set() else self._refusal(action, tell)
            if error is not None and (isinstance(action, CreatePod) or ends_what_is_alike(error)):
                stopped.set()
            return error

        found = map(attempt, wave) if len(wave) == 1 else self.writing.map(attempt, wave)
        return [(action, error) for action, error in zip(wave, found, strict=True) if error is not None]

    def _refusal(self, action: Action, tell: Callable[[Explanation], None]) -> WeftError | None:
        verb, kind = asked_about(action)
        subject = f"{verb} of {kind} {_namespace(action)}/{_named(action)}"
        try:
            changed = self.do(action) is not False
        except WeftError as error:
            if not isinstance(error, Retry) and self.told.is_news(subject, str(error)):
                log.info("%s was refused: %s", subject, error)
            return error
        self.told.end(subject)
        if changed and isinstance(action, ApplyObject) and action.told is not None:
            tell(action.told)
        return None


def _asked(actions: Iterable[Action], held: Held, chosen: set[str]) -> Iterator[Action]:
    """The actions that are not held back; `chosen` collects the pods that stay in routing because of it."""
    for each in actions:
        if held.holds(each):
            chosen |= _stays_chosen(each)
        else:
            yield each


def _stays_chosen(undone: Action) -> set[str]:
    """The pod that stays because fronts go on choosing it, as this action was not carried out."""
    match undone:
        case UnroutePod() | ForgetWorker(hurries=False):
            return {undone.name}
        case _:
            return set()


def waves(actions: Iterable[Action], largest: int) -> Iterator[tuple[Action, ...]]:
    """Actions to carry out together: 1, 2, 4 ... pods to create or replicas to release, from `largest` on all the rest.

    Everything else goes alone. The first pod goes alone too, as an exhausted quota then costs one refusal.
    """
    for kind, alike in groupby(actions, type):
        left, size = [*alike], 1
        while left:
            wave, left = left[:size], left[size:]
            yield tuple(wave)
            size = 1 if kind not in _TOGETHER else 2 * size if 2 * size < largest else len(left)


def is_of_pods(action: Action) -> bool:
    """Whether pods are useless without this action: it creates a pod, or the ComputeDomain of its replica."""
    return isinstance(action, CreatePod) or (
        isinstance(action, ApplyObject) and action.body.get("kind") == COMPUTE_DOMAIN[1]
    )


def asked_about(action: Action) -> tuple[str, str]:
    """The verb and the kind of object of an action."""
    match action:
        case ApplyObject():
            kind = f"{action.body.get('apiVersion')} {action.body.get('kind')}"
        case DeleteObject():
            kind = f"{action.api_version} {action.kind}"
        case _:
            kind = "v1 Pod"
    return type(action).__name__, kind


def _named(action: Action) -> str:
    """The name of the object of an action among those of its kind."""
    match action:
        case CreatePod() | ApplyObject():
            return str(action.body["metadata"]["name"])
        case ReleasePods():
            return ",".join(name for name, _ in action.pods)
        case _:
            return action.name


def _namespace(action: Action) -> str:
    if isinstance(action, CreatePod | ApplyObject):
        return str(action.body["metadata"].get("namespace"))
    return action.namespace


def _more_telling(first: WeftError | None, error: WeftError) -> WeftError:
    """The first error of a pass, but for those by which one would soon try again what was refused after them."""
    return error if first is None or isinstance(first, PodContended) else first


def ends_what_is_alike(problem: WeftError) -> bool:
    """Whether other actions of the same wave would fail, too."""
    return isinstance(problem, Unanswered) or ends_the_pass(problem)


def ends_the_pass(problem: WeftError) -> bool:
    """Whether all later actions of the pass would fail, too."""
    return (isinstance(problem, Retry) and not isinstance(problem, PodContended)) or everything_goes(problem)


def everything_goes(problem: WeftError) -> bool:
    """Whether the namespace is being deleted, which is nobody's mistake and takes no event."""
    return problem.reason is Reason.NamespaceTerminating
