"""What a converge pass over one resource answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from weft.domain.action import Action
    from weft.domain.reasons import Explanation

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Convergence(Generic[P]):
    """Actions in the order in which they have to be done, the progress to write, and events of this pass.

    Any first part of `actions` may be carried out and the rest dropped: the next pass finds what is left. After
    `again_seconds` the progress changes by itself; None where time alone changes nothing.
    """

    actions: tuple[Action, ...]
    progress: P
    events: tuple[Explanation, ...] = ()
    again_seconds: float | None = None
