"""A mistake in what pools do together is found to be about one of them, and holds that one alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.control.test_isolating import Passes, grow, of, serving
from tests.decide.test_splits import split_world
from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.catalog import load
from weft.control.deciding.isolating import LONGEST_SEARCH_SECONDS, Isolating
from weft.control.metrics.telemetry import Telemetry
from weft.decide import decide, steps, whose
from weft.domain.reasons import Reason
from weft.domain.stumbling import Stumbled
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.decision import PoolDecision
    from weft.domain.snapshot import PoolRecord, Snapshot

TOGETHER = (
    "keep_halves_together",
    "keep_spares",
    "explain_again",
    "say_who_fits_in_place",
    "say_what_is_awaited",
    "make_room",
    "preempt",
    "replace_outliers",
    "say_what_holds_rollouts",
)


class NoSuchSpread:
    """What nobody compares with that before a place is looked for."""

    def __eq__(self, other: object) -> bool:
        if other == "Zone":
            raise ZeroDivisionError("no such spread")
        return self is other

    def __hash__(self) -> int:
        return 1


def in_its_search(record: PoolRecord) -> PoolRecord:
    """It cannot be placed, of which nothing says before that whose place was looked for."""
    assert record.spec is not None
    spread: Any = NoSuchSpread()
    return replace(record, spec=replace(record.spec, placement=replace(record.spec.placement, spread=spread)))


def stumbles_over(monkeypatch: pytest.MonkeyPatch, step: str, *names: str) -> None:
    """A step that all pools take together fails where all of these take part."""
    taken: Callable[..., Any] = getattr(steps, step)

    def fails(first: Any, *others: Any, **named: Any) -> Any:  # noqa: ANN401 - as the step
        first = list(first)
        if set(names) <= {name for each in first for name in _names(each)}:
            raise KeyError(step)
        return taken(first, *others, **named)

    monkeypatch.setattr(steps, step, fails)


def _names(each: Any) -> list[str]:  # noqa: ANN401 - a course, a growth, or the courses of a unit
    if isinstance(each, (list, tuple)):
        return [name for inner in each for name in _names(inner)]
    return [(each.turn.planned if hasattr(each, "turn") else each.planned).pool.key.name]


def is_held(decision: PoolDecision, error: str) -> bool:
    (planned,) = (each for each in decision.conditions if each.kind == "Planned")
    why = planned.explanation
    return planned.status == "False" and why.reason is Reason.HoldNotPlanned and error in why.message


def test_who_cannot_be_placed_is_held_and_all_others_are_placed() -> None:
    world, passes = serving("chat", "code"), Passes()
    before = world.pools["chat"].status.assignments
    world.pools["chat"] = in_its_search(world.pools["chat"])
    grow(world, "chat", 3)
    grow(world, "code", 3)
    with pytest.raises(ZeroDivisionError):
        decide(world.snapshot(), load())
    decisions = passes.over(world.snapshot())
    assert 3 == len(of(decisions, "code").status.assignments)
    assert before == of(decisions, "chat").status.assignments
    assert is_held(of(decisions, "chat"), "ZeroDivisionError: no such spread")
    assert not is_held(of(decisions, "code"), "")
    assert 1 == passes.failures


@pytest.mark.parametrize("step", TOGETHER)
def test_whatever_step_they_take_together(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    world, passes = serving("chat", "code"), Passes()
    before = world.pools["chat"].status.assignments
    grow(world, "chat", 3)
    grow(world, "code", 3)
    stumbles_over(monkeypatch, step, "chat")
    decisions = passes.over(world.snapshot())
    assert 3 == len(of(decisions, "code").status.assignments)
    assert before == of(decisions, "chat").status.assignments
    assert is_held(of(decisions, "chat"), f"KeyError: '{step}'")


def test_of_two_that_cannot_be_decided_on_together_the_later_one_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets what is scarce later, too."""
    world, passes = serving("chat", "code"), Passes()
    world.pools["code"] = replace(world.pools["code"], priority=10)
    stumbles_over(monkeypatch, "make_room", "chat", "code")
    decisions = passes.over(world.snapshot())
    assert is_held(of(decisions, "chat"), "KeyError")
    assert not is_held(of(decisions, "code"), "")


def test_both_halves_of_a_split_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """S6: half a pair is decided on by nobody."""
    world, passes = split_world(pool_spec(4, role=Role.Prefill), pool_spec(4, role=Role.Decode)), Passes()
    world.turn(4)
    before = {name: each.status.assignments for name, each in world.pools.items()}
    stumbles_over(monkeypatch, "preempt", next(iter(world.pools)))
    decisions = passes.over(world.snapshot())
    assert before == {each.key.name: each.status.assignments for each in decisions.pools}
    assert all(is_held(each, "KeyError") for each in decisions.pools)


def test_a_search_takes_few_passes_and_finds_whoever_it_is() -> None:
    """One for each halving, and one that shows that it is about somebody."""
    names = [f"p-{index}" for index in range(100)]
    snapshot = World.of([board("b-0")], *(pool(name, pool_spec(1)) for name in names)).snapshot()
    for name in names:
        asked: list[int] = []

        def attempt(seen: Snapshot, name: str = name, asked: list[int] = asked) -> Exception | None:
            asked.append(1)
            understood = {each.key.name for each in seen.pools if each.spec is not None}
            return KeyError(name) if name in understood else None

        found = whose(KeyError(name), snapshot, attempt)
        assert found is not None
        assert ({f"uid-{name}"}, name) == (found.uids, *getattr(found.__cause__, "args", ()))
        assert 1 + math.ceil(math.log2(len(names))) >= len(asked)


def test_what_is_about_nobody_is_not_searched_for_long() -> None:
    snapshot = serving("chat", "code").snapshot()
    tries: list[Snapshot] = []

    def attempt(seen: Snapshot) -> Exception:
        tries.append(seen)
        return KeyError("nodes")

    assert whose(KeyError("nodes"), snapshot, attempt) is None
    assert 1 == len(tries)


def test_nobody_is_to_blame_where_nobody_takes_part() -> None:
    snapshot = World.of([board("b-0")]).snapshot()
    assert whose(KeyError("nodes"), snapshot, lambda _: None) is None


def test_a_mistake_that_says_of_whom_it_is_is_believed() -> None:
    snapshot = serving("chat", "code").snapshot()

    def attempt(seen: Snapshot) -> Exception | None:
        understood = any(each.spec is not None for each in seen.pools)
        return Stumbled(("uid-code",), KeyError("of code")) if understood else None

    found = whose(KeyError(), snapshot, attempt)
    assert found is not None
    assert {"uid-code"} == found.uids


def test_no_search_begins_once_searching_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has to be seen alive; the next pass begins without those that were found."""
    world = serving("chat", "code", "more")
    for name in ("chat", "code"):
        stumbles_over(monkeypatch, "make_room", name)
    now = [0.0]

    def clock() -> float:
        now[0] += LONGEST_SEARCH_SECONDS / 2
        return now[0]

    isolating = Isolating(Telemetry(), clock)
    with pytest.raises(KeyError):
        isolating.decide(world.snapshot(), load())
    decisions = isolating.decide(world.snapshot(), load())
    assert [True, True, False] == [is_held(of(decisions, name), "KeyError") for name in ("chat", "code", "more")]
