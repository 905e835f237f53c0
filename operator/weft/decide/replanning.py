"""How pools are planned once more in other shapes, after everybody was judged and budgets were shared out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.plans.alternatives import alternatives_of
from weft.decide.plans.pairs import plan_as_wished
from weft.decide.turns import turns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn
    from weft.decide.pass_state import PassState
    from weft.decide.plans.facts import Facts
    from weft.decide.plans.wished_shapes import WishedShape
    from weft.domain.shape import Candidate


@dataclass(frozen=True, slots=True)
class Replanner:
    """Plans and counts a pool, or both halves of a split, once more in other shapes."""

    state: PassState
    facts: Facts

    def __call__(self, turns: Sequence[Turn], wishes: Sequence[WishedShape | None]) -> list[Turn] | None:
        """The turns planned and counted anew in these shapes; None where that cannot be."""
        state, unit = self.state, tuple(turn.planned.pool for turn in turns)
        known = [state.prospects[pool.key.uid] for pool in unit]
        terms = [(turn.planned, prospect.live) for turn, prospect in zip(turns, known, strict=True)]
        planned = plan_as_wished(state.split_of(unit), terms, wishes, self.facts)
        if planned is None:
            return None
        again = {each.pool.key.uid: replace(before, planned=each) for each, before in zip(planned, known, strict=True)}
        return turns_of(unit, replace(state, prospects={**state.prospects, **again}, counted={}))

    def alternatives(self, turns: Sequence[Turn]) -> list[tuple[Candidate, ...]]:
        """Which other shapes the pools could run on what the cluster has in this pass."""
        return alternatives_of([turn.planned for turn in turns], self.facts)
