"""Whether engines of the next plans of a split exchange KV with those of the plans before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.shaping import sizes_conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.catalog import Catalog
    from weft.decide.plans.pair import Pair
    from weft.domain.shape import Plan


def exchange_kv(before: Sequence[Plan], pair: Pair, catalog: Catalog) -> bool:
    """Whether engines of the plans before (prefill, decode) exchange KV with those of the pair, and keep it alike."""
    after, architecture, version = (pair.prefill, pair.decode), pair.sender.architecture, pair.release.version
    if not all(_keep_it_alike(*plans, catalog) for plans in zip(before, after, strict=True)):
        return False
    crossed = (before[0].shape, after[1].shape), (after[0].shape, before[1].shape)
    return not any(sizes_conflict(*each, architecture, version, pair.connector) for each in crossed)


def _keep_it_alike(before: Plan, after: Plan, catalog: Catalog) -> bool:
    """On GPUs of one generation, and in one precision."""
    old, new = before.shape, after.shape
    generations = {_generation(each.accelerator, catalog) for each in (old, new)}
    return len(generations) == 1 and old.precision is new.precision


def _generation(accelerator: str, catalog: Catalog) -> str:
    """The generation of its GPUs; of one that only another release knows its name."""
    try:
        return catalog.accelerator(accelerator).generation
    except Invalid:
        return accelerator
