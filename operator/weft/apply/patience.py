"""What others undo each time is put right at once a few times, and then ever more seldom: both would go on for ever."""

from __future__ import annotations

REMEMBERED = 10_000  # objects of which it is known what was done to them
AT_ONCE = 3  # times in a row that what was undone is done again at once
FIRST_REST_SECONDS = 10.0  # doubled with each time that it is undone
SETTLED_SECONDS = 900.0  # after which a change is another one: longer than a rest and the back-off of its resource


def rest_seconds(undone: int, longest_seconds: float) -> float:
    """For how long what was `undone` so many times in a row waits until it is done again."""
    over = undone - AT_ONCE
    return min(longest_seconds, FIRST_REST_SECONDS * 2 ** min(over, 20)) if over >= 0 else 0.0
