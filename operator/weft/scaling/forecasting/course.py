"""The course of a pool's request rate over the last hours, as a text: a character for the log rate of each bin.

It is what `cycles` looks for a period in, and of which a status keeps the end.
"""

from __future__ import annotations

# Bins of a course: nearly five hours.
COURSE_BINS = 576
SHORTEST_BINS = 8
# A course has to hold so many periods: one for the mean, one that foretells, and three that are foretold.
PERIODS_NEEDED, PERIODS_FORETOLD = 5, 3
LONGEST_BINS = COURSE_BINS // PERIODS_NEEDED
UNSEEN = " "
# The log rate of the character after that for an unseen bin (a request in 74 s), from one to the next, and the last.
LEAST_LOG, STEP, _LAST = -4.3, 0.1, 255
# What a status keeps of a course: a byte for each bin of shorter periods.
MOST_KEPT_BYTES, _LONGEST_IN_FULL = 360, 67.0


def with_bin(course: str, log_rate: float, unseen: int) -> str:
    """The course with one more bin, after so many that nobody saw; each character is the log rate of a bin."""
    code = min(_LAST, ord(UNSEEN) + 1 + max(0, round((log_rate - LEAST_LOG) / STEP)))
    return f"{course}{UNSEEN * min(unseen, COURSE_BINS)}{chr(code)}"[-COURSE_BINS:]


def shifted(course: str, more: float) -> str:
    """The course with so much added to each log rate, to the nearest character."""
    by, least = round(more / STEP), ord(UNSEEN) + 1
    return "".join([each if each == UNSEEN else chr(min(_LAST, max(least, ord(each) + by))) for each in course])


def highest_of(course: str, bins: int) -> float:
    """The highest log rate of so many bins, the last that anybody saw; below that of any character where none was."""
    return log_rate_of(max(course.replace(UNSEEN, "")[-bins:], default=UNSEEN))


def log_rate_of(code: str) -> float:
    """The log rate that one character stands for; a step below the least for an unseen bin."""
    return LEAST_LOG + STEP * (ord(code) - ord(UNSEEN) - 1)


def kept_part(course: str, period: float) -> bytes:
    """The last bins of a course, as many as fit: a byte for each, or for each two where periods are long.

    A cycle that holds has to hold again when `continued` makes a course of them: where a start takes as long as a
    period, it is foretold by cycles that are further back.
    """
    stride = _stride(period)
    kept = min(len(course) // stride, MOST_KEPT_BYTES)
    return course[len(course) - kept * stride :][stride - 1 :: stride].encode("latin-1", "replace")


def continued(kept: bytes, period: float) -> str:
    """The course whose last bins were kept."""
    return "".join([code * _stride(period) for code in kept.decode("latin-1")])[-COURSE_BINS:]


def _stride(period: float) -> int:
    """Bins that one byte stands for."""
    return 1 if period <= _LONGEST_IN_FULL else 2
