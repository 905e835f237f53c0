"""Whoever comes, with whatever priority and size, into whatever is full: quotas, places or both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decide.limited import GPUS, Limited, join, limited
from tests.decide.world import external, pool, pool_spec

HALVES = ("prefill", "decode")
TURNS, RESTING, SECONDS = 20, 4, 15.0
PLENTY = 1000


@dataclass(frozen=True)
class Comer:
    """A pool, or a split with as many replicas of each half as `counts` has."""

    gpus: int
    counts: tuple[int, ...]
    fewest: int
    priority: int
    preempts: bool = True

    def join(self, world: Limited, name: str) -> tuple[str, ...]:
        """It comes; gives the names of its pools."""
        wanted = [replace(external(count), min_replicas=min(self.fewest, count)) for count in self.counts]
        names = (name,) if len(wanted) == 1 else tuple(f"{name}-{half}" for half in HALVES)
        if len(wanted) == 1:
            world.pools[name] = pool(name, pool_spec(self.gpus, wanted[0]), self.priority)
        else:
            join(world, name, wanted[0], wanted[1], self.priority, self.gpus)
        world.pools |= {each: replace(world.pools[each], preempts=self.preempts) for each in names}
        return names


COUNTS = st.one_of(st.tuples(st.integers(1, 4)), st.tuples(st.integers(1, 4), st.integers(1, 4)))
THERE = st.builds(Comer, st.sampled_from([2, 4, 8]), COUNTS, st.integers(1, 2), st.integers(0, 2))
COMES = st.builds(Comer, st.sampled_from([2, 4, 8]), COUNTS, st.integers(1, 3), st.integers(0, 3), st.booleans())


def replicas(world: Limited) -> dict[str, int]:
    return {name: len(world.status(name).assignments) for name in world.pools}


def apart(counts: dict[str, int], names: tuple[str, ...], wanted: tuple[int, ...]) -> float:
    """By how much one half of a split is ahead of the other, in replicas of the half that has fewer."""
    first, second = (counts[name] / count for name, count in zip(names, wanted, strict=True))
    return abs(first - second) * min(wanted)


@settings(max_examples=25, deadline=None)
@example([Comer(4, (3, 2), 1, 0), Comer(4, (2, 2), 1, 0)], Comer(8, (1, 1), 1, 2), 5, 48)
@given(st.lists(THERE, min_size=1, max_size=3), COMES, st.integers(2, 6), st.sampled_from([12, 24, 32, 48, PLENTY]))
def test_only_lower_pools_give_in_step_never_all_they_have_and_once(
    there: list[Comer], comes: Comer, boards: int, quota: int
) -> None:
    """No GPU beyond the quota, nobody of the same or higher priority loses, pairs stay pairs, and all comes to rest."""
    world = limited(boards, {GPUS: quota})
    names = [each.join(world, f"p{index}") for index, each in enumerate(there)]
    world.turn(TURNS, SECONDS)
    before = replicas(world)
    comes.join(world, "comes")
    given_up: Counter[str] = Counter()
    for _ in range(TURNS):
        world.turn(1, SECONDS)
        now = replicas(world)
        assert world.used(GPUS) <= quota
        given_up.update(
            each.key.name
            for each in (world.last.pools if world.last else ())
            for event in each.events
            if event.reason.value == "Preempted"
        )
        for unit, owns in zip(there, names, strict=True):
            check(unit, owns, comes, before, now)
    assert all(count <= before[name] for name, count in given_up.items())
    resting = {name: record.status for name, record in world.pools.items()}
    world.turn(RESTING, SECONDS)
    assert resting == {name: record.status for name, record in world.pools.items()}


def check(unit: Comer, owns: tuple[str, ...], comes: Comer, before: dict[str, int], now: dict[str, int]) -> None:
    """What a unit that was there before still has."""
    for name, count in zip(owns, unit.counts, strict=True):
        least = before[name] if unit.priority >= comes.priority or not comes.preempts else min(unit.fewest, count)
        assert now[name] >= min(before[name], least)
    if len(owns) > 1:
        assert apart(now, owns, unit.counts) <= max(1.0, apart(before, owns, unit.counts)) + 1e-9
