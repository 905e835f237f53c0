"""How long a replica takes from its binding to its first answer, and which faults happen to nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp
from random import Random


class FaultKind(StrEnum):
    """What happens to a node."""

    Fails = "Fails"  # power or kernel: nothing on it serves from that moment on
    Cordoned = "Cordoned"  # somebody is about to drain it
    Recovers = "Recovers"  # any earlier fault is over
    GPULost = "GPULost"  # one GPU falls off the bus, and takes the engine that used it with it


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one node, `at` seconds since the trace began."""

    node: str
    at: float
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class StartPhases:
    """Median seconds of each phase between a pod's binding and its readiness.

    The image is pulled once per node. `spread` is the standard deviation of each phase's logarithm.
    """

    image_seconds: float = 90.0
    weights_seconds: float = 60.0
    compile_seconds: float = 30.0
    capture_seconds: float = 20.0
    spread: float = 0.15

    def drawn(self, seed: str) -> StartPhases:
        """Draw the phases of one replica: the same seed gives the same phases, whatever else was drawn."""
        random = Random(seed)
        medians = (self.image_seconds, self.weights_seconds, self.compile_seconds, self.capture_seconds)
        image, weights, compiling, capture = (median * exp(random.gauss(0.0, self.spread)) for median in medians)
        return StartPhases(image, weights, compiling, capture, self.spread)

    def expected(self, image: float, weights: float, engine: float) -> StartPhases:
        """Return phases as a plan expects them, with its one engine phase divided as these divide it."""
        part = engine / (self.compile_seconds + self.capture_seconds)
        return StartPhases(image, weights, part * self.compile_seconds, part * self.capture_seconds, self.spread)

    def lasting(self, seconds: float) -> StartPhases:
        """Scale the phases to `seconds` in all, with the image already on every node."""
        part = seconds / self.engine_seconds
        return StartPhases(
            0.0, part * self.weights_seconds, part * self.compile_seconds, part * self.capture_seconds, self.spread
        )

    @property
    def seconds(self) -> float:
        """Seconds from binding to the first answer, the image included."""
        return self.image_seconds + self.engine_seconds

    @property
    def engine_seconds(self) -> float:
        """Seconds from when the image is on the node until the engine answers."""
        return self.weights_seconds + self.compile_seconds + self.capture_seconds
