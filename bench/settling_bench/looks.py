"""A moment decided twice: what the second call says otherwise than the first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.decide import as_decided, decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.settling_bench.crowd import Crowd
    from weft.catalog import Catalog
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

    Decide = Callable[[Snapshot, Catalog], Decisions]

OTHERS = "others"


def looked_at_twice(crowd: Crowd, catalog: Catalog, decide: Decide = decide) -> frozenset[str]:
    """What a second call with what the first one decided changes; the crowd goes on with the second answer."""
    before = crowd.snapshot()
    first = decide(before, catalog)
    between = as_decided(before, first)
    second = decide(between, catalog)
    crowd.take(as_decided(between, second))
    return changes(first, second)


def changes(first: Decisions, second: Decisions) -> frozenset[str]:
    """Which of counts, places and conditions differ; `others` where only something else does. Events do not count."""
    found = frozenset(name for name, part in PARTS.items() if part(first) != part(second))
    return found or frozenset({OTHERS} if _without_events(first) != _without_events(second) else ())


def _counts(decisions: Decisions) -> Any:  # noqa: ANN401 - compared, never read
    wanted = [(each.status.desired_replicas, each.recommended) for each in decisions.pools]
    return wanted, [(each.prefill_desired, each.decode_desired) for each in decisions.splits]


def _places(decisions: Decisions) -> Any:  # noqa: ANN401 - as above
    """Who has one, and who makes room or is made room for."""
    return [(each.status.assignments, each.status.moves, each.status.opening) for each in decisions.pools]


def _conditions(decisions: Decisions) -> Any:  # noqa: ANN401 - as above
    return [each.conditions for each in decisions.pools], [each.conditions for each in decisions.splits]


PARTS: dict[str, Callable[[Decisions], Any]] = {"counts": _counts, "places": _places, "conditions": _conditions}


def _without_events(decisions: Decisions) -> Decisions:
    pools = tuple(replace(each, events=()) for each in decisions.pools)
    return replace(decisions, pools=pools, splits=tuple(replace(each, events=()) for each in decisions.splits))
