"""Requests that come to a replica more regularly than at random, as a front before several goes by load or in turn.

Of n replicas in turn one gets every n-th request: gaps are Erlang distributed, and in a long time the number that comes
varies by 1/n of what it does at random. That is the dispersion (Cox and Lewis). Right after one request fewer others
come than at random: of a renewal process (1 - dispersion) / 2 fewer in the long run, and in a short time that part of
all. By load they are more regular still, as a replica with a long prompt gets none meanwhile.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Coming(NamedTuple):
    """How requests come to a replica: at random, or of so many that share a queue, all but the part `astray`.

    `dispersion` is that of how many come.
    """

    in_one_queue: int | None = None
    astray: float = 0.0
    dispersion: float = 1.0


AT_RANDOM = Coming()


def dispersion(replicas: int, astray: float = 0.0) -> float:
    """The variance of how many come to one of so many replicas over their mean; 1 at random.

    The part `astray` comes at random all the same.
    """
    return astray + (1.0 - astray) / max(1, replicas)


def fewer(dispersion: float, met: float, before: float = 0.0) -> float:
    """The part of `met` requests, as come at random while one is there, that do come; `before` were met by then."""
    return 1.0 - (1.0 - dispersion) * math.exp(-2.0 * before) * _briefly(met)


def spread(dispersion: float, met: float) -> float:
    """The variance of the number that comes in a time, over its mean, where `met` would on average."""
    return dispersion + (1.0 - dispersion) * _briefly(met)


def _briefly(met: float) -> float:
    """From 1, where hardly another comes in a time, to 0, where ever more do."""
    return -math.expm1(-2.0 * met) / (2.0 * met) if met > 0.0 else 1.0
