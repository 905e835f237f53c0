"""Facts about notices of node termination: who gives them, and how long the node stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ReclaimTaint:
    """A taint of a node that is going away, from `notices.yaml`, which has the sources.

    `seconds` from the notice to the end; `spot` instead on nodes with one of the labels in `where`. None: unknown.
    With `value_is_its_time` the taint's value is when it was set, in epoch seconds.
    """

    who: str
    seconds: float | None = None
    spot: float | None = None
    where: tuple[tuple[str, str], ...] = ()
    value_is_its_time: bool = False

    def seconds_on(self, labels: Mapping[str, str]) -> float | None:
        """Seconds of notice on a node with these labels, None if unknown."""
        is_spot = any(labels.get(key) == value for key, value in self.where)
        return self.spot if is_spot else self.seconds
