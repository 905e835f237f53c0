"""Speculative decoding: k tokens are drafted, then verified in one step, which yields those taken and one more.

If each drafted token is accepted with probability `a` once all before it were, a step yields 1 + a + ... + a^k =
(1 - a^(k+1)) / (1 - a) tokens (Leviathan et al., arXiv 2211.17192). It reads weights and KV once and computes for k + 1
tokens of each sequence: little while a step waits for memory, and k + 1 times the time once it waits for arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.model import Architecture


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft model, on the same GPUs and sharded like the model. `precision` None: the model's own.

    `has_vocabulary` says that it has embeddings or a head of its own.
    """

    architecture: Architecture
    precision: Precision | None = None
    has_vocabulary: bool = True


@dataclass(frozen=True, slots=True)
class Speculation:
    """`tokens` are drafted per step, each accepted with probability `acceptance`. Without `draft` they are free."""

    tokens: int
    acceptance: float
    draft: Draft | None = None

    @property
    def verified(self) -> float:
        """Tokens of one sequence that a step computes."""
        return self.tokens + 1.0

    @property
    def accepted(self) -> float:
        """Tokens of one sequence that a step yields, on average."""
        return sum(self.acceptance**token for token in range(self.tokens + 1))
