"""Targets that a replica misses, by how much, and which part of the latency is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.texts.figures import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Miss:
    """A target that cannot be met at any rate: `predicted_seconds` is what an idle replica would reach.

    For KV transfers, `share` is the fraction of the target that may pass until the KV has arrived.
    """

    metric: str
    percentile: int
    target_seconds: float
    predicted_seconds: float
    share: float = 1.0

    @property
    def of(self) -> str:
        """What is late: the metric itself, or `KV` where the transfer exceeds its share of the target."""
        return self.metric if self.share == 1.0 else "KV"

    @property
    def overshoot(self) -> float:
        """Predicted latency over the allowed one, above 1."""
        return self.reachable_seconds / self.target_seconds

    @property
    def reachable_seconds(self) -> float:
        """The tightest target that an idle replica would meet."""
        return self.predicted_seconds / self.share

    def __str__(self) -> str:
        """`TTFT p95 1.2 s of 500 ms`."""
        metric, reached = f"{self.metric} p{self.percentile}", seconds(self.predicted_seconds)
        target = seconds(self.target_seconds)
        if self.of != "KV":
            return f"{metric} {reached} of {target}"
        return f"KV has come after {reached}, more than {self.share:.0%} of {metric} {target}"


def missed(
    metric: str, targets: tuple[tuple[int, float], ...], predicted: Callable[[int], float], share: float = 1.0
) -> Iterator[Miss]:
    """Yield the targets of which the prediction at their percentile exceeds the allowed `share`."""
    for percentile, target in targets:
        if (reached := predicted(percentile)) > target * share:
            yield Miss(metric, percentile, target, reached, share)
