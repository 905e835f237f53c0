"""Engine versions as comparable numbers."""

from __future__ import annotations

import math
import re

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

Version = tuple[int, ...]

Order = tuple[Version, float]  # release numbers, and the number of a candidate (infinite for the release itself)

_CANDIDATE = re.compile(r"^v?\d+(?:\.\d+)*[.-]?rc\.?(\d+)")
_NUMBERS = re.compile(r"^v?(\d+(?:\.\d+)*)")


def parse_version(text: str) -> Version:
    """The release numbers of `0.33.0`, `v0.18.1` or `0.32.0+cpu`, at least three; raises `Invalid` without any."""
    match = _NUMBERS.match(text)
    if match is None:
        raise Invalid(Reason.EngineUnsupported, f"engine version {text!r} does not start with a number such as 0.32.0")
    numbers = tuple(int(part) for part in match.group(1).split("."))
    return numbers + (0,) * (3 - len(numbers))


def dotted(version: Version) -> str:
    """A version as text: 2.0.10."""
    return ".".join(map(str, version))


def release_order(text: str) -> Order:
    """A sort key that puts candidates before their release: 1.3.0rc9, 1.3.0rc12, 1.3.0; raises as `parse_version`."""
    match = _CANDIDATE.match(text)
    return parse_version(text), float(match.group(1)) if match else math.inf
