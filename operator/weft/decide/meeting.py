"""How engines of the next plans of a split never meet running ones that they could not exchange KV with (ADR 0122).

A router pairs freely among pods of one pair (ADR 0033). Where an edit leaves only such plans the split counts another
`kv_layouts`, by which its children are told another pair, and the plans of before stay until they are. Where the spec
still allows what runs, that stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from weft.decide.plans.exchange import exchange_kv
from weft.decide.plans.pair import HALVES, Pair
from weft.decide.plans.wished_shapes import allows
from weft.render import pair_of, pair_revision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.decide.plans.facts import Facts
    from weft.decide.replicas.roll import Roll
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord, Snapshot, SplitRecord
    from weft.domain.spec import PoolSpec
    from weft.shaping import Unpaired


MOST_TRIED = 100


class _Half(NamedTuple):
    """A child of a split: its spec now, and what it was planned as last."""

    pool: PoolRecord
    spec: PoolSpec
    plan: Plan


def that_meet_their_own(
    pairs: Mapping[str, Pair | Unpaired], snapshot: Snapshot, roll: Roll, facts: Facts
) -> dict[str, Pair | Unpaired]:
    """The pairs; or the plans of before, while replicas of the next ones would meet those that run."""
    found = dict(pairs)
    children = {(pool.split_uid, pool.spec.role): pool for pool in snapshot.pools if pool.split_uid and pool.spec}
    for split in snapshot.splits:
        pair, halves = pairs.get(split.key.uid), []
        if not isinstance(pair, Pair):
            continue
        for role in HALVES:
            pool = children.get((split.key.uid, role))
            if pool is not None and pool.spec is not None and pool.status.plan is not None:
                halves.append((pool, pool.spec, pool.status.plan))
        shapes = [plan.shape for _, _, plan in halves]
        if shapes != [pair.prefill.shape, pair.decode.shape] or split.status.kv_layouts or split.status.engine is None:
            found[split.key.uid] = _meeting(split, pair, [_Half(*each) for each in halves], roll, facts)
    return found


def _meeting(split: SplitRecord, pair: Pair, halves: Sequence[_Half], roll: Roll, facts: Facts) -> Pair:
    layouts, before = _layouts(split, pair, halves), [each.plan for each in halves]
    found = replace(pair, kv_layouts=layouts)
    if len(before) < len(HALVES) or split.status.engine != pair.release or exchange_kv(before, pair, facts.catalog):
        return found
    if not all(_are_in_sight(each, facts) for each in halves):
        return found
    if not any(pod.pair == half.spec.pair for half in halves for pod in roll.pods_of(half.pool)):
        return found
    are_told = all(each.spec.pair == pair_of(split) for each in halves)
    has_to_change = not all(allows(each.spec, each.plan.shape) for each in halves)
    more = int(are_told and has_to_change)
    return replace(pair, prefill=before[0], decode=before[1], kv_layouts=layouts + more)


def _layouts(split: SplitRecord, pair: Pair, children: Sequence[_Half]) -> int:
    """How many there were; if the status is lost, as many as make the pair that the children name."""
    if split.status.engine is not None or split.spec is None or not children:
        return split.status.kv_layouts
    spec, named = split.spec, children[0].spec.pair
    return next((count for count in range(MOST_TRIED) if pair_revision(spec, pair.release, count) == named), 0)


def _are_in_sight(half: _Half, facts: Facts) -> bool:
    """Whether nodes show GPUs of the kind that it was planned on; else `replicas/vanished.py` says what stays."""
    shape, spec = half.plan.shape, half.spec
    if not spec.placement.allows(shape.accelerator):
        return True
    return any(each.accelerator == shape.accelerator for each in facts.supplied(spec.placement))
