"""Small reads on demand whose answers are good for a while. Threads may share them: at worst one is read twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from weft.observe.api_server.reading import has_nothing_for_us

if TYPE_CHECKING:
    from collections.abc import Callable

FORGOTTEN_AFTER = 10.0  # times as long as an answer is good: nobody asks for it any more

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")


class SmallReads(Generic[Wanted, Answer]):
    """Answers by what was wanted: `nothing` for what is missing or forbidden.

    In an outage the last answers stay, and nothing else is asked for as long as an answer is good: many who wait for
    an API server that hangs, one after the other, would wait for longer than a loop may be silent.
    """

    def __init__(
        self, read: Callable[[Wanted], Answer], nothing: Answer, seconds: float, clock: Callable[[], float]
    ) -> None:
        """Nothing is read before it is asked for; `read` raises as `Reader` does."""
        self._read = read
        self._nothing = nothing
        self._seconds = seconds
        self._clock = clock
        self._known: dict[Wanted, tuple[float, Answer]] = {}
        self._away_until = -math.inf

    def get(self, wanted: Wanted) -> Answer:
        """The answer, at most `seconds` old while the API server answers."""
        now = self._clock()
        read_at, known = self._known.get(wanted, (-math.inf, self._nothing))
        if now - read_at < self._seconds or now < self._away_until:
            return known
        known = self._ask(wanted, known)
        self._known = {other: each for other, each in self._known.items() if not self._is_forgotten(each[0])}
        self._known[wanted] = self._clock(), known
        return known

    def _ask(self, wanted: Wanted, known: Answer) -> Answer:
        try:
            return self._read(wanted)
        except ApiException as error:
            if has_nothing_for_us(error):
                return self._nothing
        except HTTPError:
            pass
        self._away_until = self._clock() + self._seconds
        return known

    def _is_forgotten(self, read_at: float) -> bool:
        return self._clock() - read_at > FORGOTTEN_AFTER * self._seconds
