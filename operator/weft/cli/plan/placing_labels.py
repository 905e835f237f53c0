"""Places labels in a picture: next to what they name, over nothing that matters, and over little else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Points = NDArray[np.float64]  # one row a point: x, y

_DIRECTIONS = tuple(math.tau * turn / 16 for turn in range(16))
_DISTANCES = (8.0, 16.0, 26.0, 38.0, 52.0, 70.0, 90.0, 115.0, 145.0)
_GAP = 3.0  # least distance between labels
_NEAR = 3.0  # distance within which a leader touches a line
# What a place costs, in dots of quiet lines under a label: distance, an anchor that is not the best one, and a
# leader over a strong line.
_PER_DISTANCE, _PER_ANCHOR, _PER_CROSSING = 0.25, 0.6, 15.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle along the axes; all lengths in this module are in points of a page."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box, gap: float = 0.0) -> bool:
        """Whether both share an area, or are closer than the gap."""
        return (
            self.left < other.right + gap
            and other.left < self.right + gap
            and self.bottom < other.top + gap
            and other.bottom < self.top + gap
        )

    def lies_in(self, other: Box) -> bool:
        """Whether the box is wholly inside the other."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )

    def count(self, points: Points) -> int:
        """Count the points in the box."""
        x, y = points[:, 0], points[:, 1]
        return int(np.count_nonzero((x > self.left) & (x < self.right) & (y > self.bottom) & (y < self.top)))


@dataclass(frozen=True, slots=True)
class Label:
    """A text's size, and the points that it may be tied to, the best first; `worth` is the most a place may cost."""

    anchors: tuple[tuple[float, float], ...]
    width: float
    height: float
    worth: float = math.inf


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a label lies, the point that it is tied to, and its distance from that."""

    box: Box
    anchor: tuple[float, float]
    distance: float

    @property
    def leader(self) -> Points:
        """The line from the anchor to the nearest point of the label, as 12 points."""
        x, y = self.anchor
        end = (min(max(x, self.box.left), self.box.right), min(max(y, self.box.bottom), self.box.top))
        return np.linspace(self.anchor, end, 12)


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What is already drawn, as dots: labels stay in the frame, and cover no strong dot and few quiet ones."""

    frame: Box
    strong: Points
    quiet: Points


def placed(labels: tuple[Label, ...], scene: Obstacles) -> tuple[Placed | None, ...]:
    """Find a place for each label in turn, None where none is left: the most important labels come first."""
    found: list[Placed | None] = []
    for label in labels:
        found.append(_best(label, scene, tuple(each for each in found if each is not None)))
    return tuple(found)


def _best(label: Label, scene: Obstacles, taken: tuple[Placed, ...]) -> Placed | None:
    """Return the cheapest free place; those whose distance alone costs more are not looked at."""
    best, least = None, label.worth
    for cost, tried in sorted(_tries(label), key=lambda each: each[0]):
        if cost >= least:
            break
        if _is_free(tried, scene, taken):
            full = cost + tried.box.count(scene.quiet) + _PER_CROSSING * _crosses(tried, scene)
            best, least = (tried, full) if full < least else (best, least)
    return best


def _tries(label: Label) -> Iterator[tuple[float, Placed]]:
    """Yield places around each anchor, with what the anchor and the distance cost."""
    for rank, (x, y) in enumerate(label.anchors):
        for distance in _DISTANCES:
            for direction in _DIRECTIONS:
                across, up = math.cos(direction), math.sin(direction)
                middle_x = x + distance * across + label.width / 2 * _side(across)
                middle_y = y + distance * up + label.height / 2 * _side(up)
                box = Box(
                    middle_x - label.width / 2,
                    middle_y - label.height / 2,
                    middle_x + label.width / 2,
                    middle_y + label.height / 2,
                )
                yield rank * _PER_ANCHOR + distance * _PER_DISTANCE, Placed(box, (x, y), distance)


def _side(part: float) -> float:
    """Return -1, 0 or 1: a label lies wholly on one side of its anchor, or centred."""
    return 0.0 if abs(part) < 0.1 else math.copysign(1.0, part)  # noqa: PLR2004 - rounding, against a 16th of a turn


def _is_free(tried: Placed, scene: Obstacles, taken: tuple[Placed, ...]) -> bool:
    if not tried.box.lies_in(scene.frame) or tried.box.count(scene.strong):
        return False
    return not any(
        tried.box.overlaps(other.box, _GAP) or other.box.count(tried.leader) or tried.box.count(other.leader)
        for other in taken
    )


def _crosses(tried: Placed, scene: Obstacles) -> bool:
    """Whether the leader, beyond its first part, touches a strong line."""
    way = tried.leader[4:, np.newaxis, :]
    return bool((np.abs(scene.strong[np.newaxis, :, :] - way).max(axis=2) < _NEAR).any())
