"""Statuses are written one by one, and whoever stops between two of them leaves no GPU promised twice (S2, L5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import pool, pool_spec
from weft.decide import in_safe_order
from weft.domain.decision import PoolDecision
from weft.domain.status import Assignment, PoolStatus

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord


def at(replica: int, *nodes: str) -> Assignment:
    return Assignment(replica, "r", nodes, 8, since=0.0)


def record(name: str, *before: Assignment) -> PoolRecord:
    return replace(pool(name, pool_spec()), status=PoolStatus(1, 9, "r", assignments=before))


def decided(each: PoolRecord, *after: Assignment) -> PoolDecision:
    return PoolDecision(each.key, 1, replace(each.status, assignments=after), 1, ())


def order(*changes: tuple[PoolRecord, tuple[Assignment, ...]]) -> list[tuple[str, list[int], list[str]]]:
    """Pool, the replicas that are written, and the pools that must have been written before."""
    every = in_safe_order([decided(each, *after) for each, after in changes], [each for each, _ in changes])
    return [
        (each.decision.key.name, [kept.replica for kept in each.decision.status.assignments], sorted(each.after))
        for each in every
        if isinstance(each.decision, PoolDecision)
    ]


def test_who_takes_a_place_is_written_after_who_gives_it_up() -> None:
    taker, giver, other = record("a"), record("b", at(0, "n-0")), record("c")
    changes = (taker, (at(1, "n-0"),)), (giver, ()), (other, (at(1, "n-1"),))
    assert [("b", [], []), ("a", [1], ["uid-b"]), ("c", [1], [])] == order(*changes)


def test_of_two_that_take_each_others_places_both_give_up_before_either_takes() -> None:
    """They take in the next pass, which decides the same again."""
    one, two = record("a", at(0, "n-0"), at(1, "n-9")), record("b", at(0, "n-1"))
    changes = (one, (at(1, "n-9"), at(2, "n-1"))), (two, (at(2, "n-0"),))
    assert [("a", [1], []), ("b", [], [])] == order(*changes)


def test_what_a_pool_gives_up_and_takes_itself_needs_nobody() -> None:
    alone = record("a", at(0, "n-0"))
    assert [("a", [1], [])] == order((alone, (at(1, "n-0"),)))
