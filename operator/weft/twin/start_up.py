"""How long a replica takes from its node to its first answer, and what happens to nodes meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp
from random import Random


class FaultKind(StrEnum):
    """What happens to a node."""

    Fails = "Fails"  # power or kernel: nothing on it serves from that moment on
    Cordoned = "Cordoned"  # somebody means to empty it
    Recovers = "Recovers"  # whatever it was is over
    GPULost = "GPULost"  # one GPU falls off the bus, and takes the engine that used it with it


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to one node, `at` seconds since the trace began."""

    node: str
    at: float
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class StartPhases:
    """Seconds of each phase between a pod's binding and its readiness, at their median.

    The image is pulled once a node. `spread` is the standard deviation of each phase's logarithm.
    """

    image_seconds: float = 90.0
    weights_seconds: float = 60.0
    compile_seconds: float = 30.0
    capture_seconds: float = 20.0
    spread: float = 0.15

    def drawn(self, seed: str) -> StartPhases:
        """The phases of one replica: the same for the same seed, whatever else was drawn."""
        random = Random(seed)
        medians = (self.image_seconds, self.weights_seconds, self.compile_seconds, self.capture_seconds)
        image, weights, compiling, capture = (median * exp(random.gauss(0.0, self.spread)) for median in medians)
        return StartPhases(image, weights, compiling, capture, self.spread)

    def expected(self, image: float, weights: float, engine: float) -> StartPhases:
        """As a plan expects it, which does not part what the engine does."""
        part = engine / (self.compile_seconds + self.capture_seconds)
        return StartPhases(image, weights, part * self.compile_seconds, part * self.capture_seconds, self.spread)

    def lasting(self, seconds: float) -> StartPhases:
        """So many seconds in all, in the same parts, where the image is on every node."""
        part = seconds / self.engine_seconds
        return StartPhases(
            0.0, part * self.weights_seconds, part * self.compile_seconds, part * self.capture_seconds, self.spread
        )

    @property
    def seconds(self) -> float:
        """From the node to the first answer, the image included."""
        return self.image_seconds + self.engine_seconds

    @property
    def engine_seconds(self) -> float:
        """From the image on the node until the engine answers."""
        return self.weights_seconds + self.compile_seconds + self.capture_seconds
