"""What every pool starts from when it sets out, and in which other shapes it may be planned meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weft.decide.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.decide.course import Turn
    from weft.decide.places.moving import Moves
    from weft.decide.plans.wished_shapes import WishedShape
    from weft.domain.shape import Candidate


class Replan(Protocol):
    """Plans the same turns in other shapes."""

    def __call__(self, turns: Sequence[Turn], wishes: Sequence[WishedShape | None]) -> list[Turn] | None:
        """The turns planned and counted anew; the shape of a half without a wish is chosen to go with the other half.

        None where a spec, the model or the engine does not allow the wished shapes.
        """

    def alternatives(self, turns: Sequence[Turn]) -> list[tuple[Candidate, ...]]:
        """Which other shapes each pool could run on what the cluster has now."""


@dataclass(frozen=True, slots=True)
class Start(Availability):
    """What everybody starts from: what is available, which replicas make room, and which have no other half yet.

    Of those `alone`, pairs of `unmatched` ones have nobody there. `counted_on` are those without which their pair would
    serve too little. `pair_places`, where nodes go away in a rollout, say which pair comes first of those that serve
    longest. `replan` plans pools in other shapes. `gone` are those that left when the same pools set out in
    others: what these had is free already.
    """

    moves: Moves
    replan: Replan
    alone: frozenset[tuple[str, int]] = frozenset()
    unmatched: frozenset[tuple[str, int]] = frozenset()
    counted_on: frozenset[tuple[str, int]] = frozenset()
    pair_places: Mapping[tuple[str, int], int] | None = None
    gone: frozenset[tuple[str, int]] = frozenset()
