"""What a converge pass over one resource answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from weft.domain.action import ApplyObject

if TYPE_CHECKING:
    from weft.domain.action import Action
    from weft.domain.reasons import Explanation

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Convergence(Generic[P]):
    """Actions in the order in which they have to be done, and the progress to write.

    Any first part of `actions` may be carried out and the rest dropped: the next pass finds what is left. After
    `again_seconds` the progress changes by itself; None where time alone changes nothing.
    """

    actions: tuple[Action, ...]
    progress: P
    again_seconds: float | None = None

    @property
    def events(self) -> tuple[Explanation, ...]:
        """Events of this pass, each once its action changed something."""
        told = (action.told for action in self.actions if isinstance(action, ApplyObject))
        return tuple(each for each in told if each is not None)
