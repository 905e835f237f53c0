"""Back-off against rivals: what others undo is redone at once a few times, then ever more seldom, or it never stops."""

from __future__ import annotations

AT_ONCE = 3  # times in a row that something undone is redone at once
FIRST_REST_SECONDS = 10.0  # doubled each time it is undone
SETTLED_SECONDS = 900.0  # a later change counts as a new one: longer than a rest and the resource's back-off


def rest_seconds(undone: int, longest_seconds: float) -> float:
    """Seconds to wait before redoing something that was `undone` this many times in a row; 0 for the first few."""
    over = undone - AT_ONCE
    return min(longest_seconds, FIRST_REST_SECONDS * 2 ** min(over, 20)) if over >= 0 else 0.0
