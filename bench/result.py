"""One measured number against its floor."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured. `value` must not exceed `limit`; `details` say under which conditions it was taken."""

    name: str
    value: float
    limit: float
    unit: str
    details: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the floor holds."""
        return self.value <= self.limit
