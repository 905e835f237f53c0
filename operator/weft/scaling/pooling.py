"""How many replicas carry a rate where a front sends each prompt to one with few of them: many need less spare room.

What one replica serves within its targets is told for one that gets its share at random. It could do more, were it not
for prompts that wait behind long ones while others are idle; the more replicas there are, the less that happens. So
the more of them a half has, the more each serves, up to what it can compute at all.
"""

from __future__ import annotations

from weft.domain.spec import carrying
from weft.perf.pooling import as_busy_as


def of_each(capacity: float, busy: float, count: int) -> float:
    """Requests a second that each of so many replicas serves; `busy` is how busy one alone is at its `capacity`.

    `busy` is a part of all time, and 0 where each gets its share at random.
    """
    return capacity * as_busy_as(busy, count) / busy if busy > 0.0 else capacity


def fewest(rate: float, capacity: float, busy: float) -> int:
    """The fewest replicas that serve a rate (requests/s), at least 1; more for a higher one. `capacity` is above 0."""
    most = carrying(rate, capacity)
    few = max(0, carrying(rate, of_each(capacity, busy, most)) - 1)  # what so many would do, each is below
    while most - few > 1:
        middle = (few + most) // 2
        few, most = (few, middle) if middle * of_each(capacity, busy, middle) >= rate else (middle, most)
    return most
