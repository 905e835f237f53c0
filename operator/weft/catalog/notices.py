"""What is known of notices that a node goes away: who gives them, and how long the node is still there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ReclaimTaint:
    """A taint of a node that goes away, `notices.yaml` with its sources.

    `seconds` from the notice to the end, on nodes with one of the labels `where` it is `spot`; None: nobody knows.
    `value_is_its_time` says that the taint's value tells when it was set, in epoch seconds.
    """

    who: str
    seconds: float | None = None
    spot: float | None = None
    where: tuple[tuple[str, str], ...] = ()
    value_is_its_time: bool = False

    def seconds_on(self, labels: Mapping[str, str]) -> float | None:
        """Seconds of notice on a node with these labels, None where nobody says."""
        is_spot = any(labels.get(key) == value for key, value in self.where)
        return self.spot if is_spot else self.seconds
