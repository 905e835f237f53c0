"""`python -m bench settling`: histories that crowd, drawn the same each time, and figures that tell a second answer."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from bench.__main__ import BENCHMARKS, USUAL, main
from bench.settling import result, tallied
from bench.settling_bench.histories import KINDS, moments
from bench.settling_bench.looks import changes, looked_at_twice
from weft.catalog import load
from weft.decide import decide

if TYPE_CHECKING:
    from bench.settling_bench.histories import Kind
    from weft.catalog import Catalog
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

BY_NAME = {kind.name: kind for kind in KINDS}
SILENT = Console(quiet=True)


def played(kind: Kind, number: int) -> list[Snapshot]:
    """What is seen at each moment of one history."""
    seen, catalog = [], load()
    for crowd in moments(kind, number):
        seen.append(crowd.snapshot())
        looked_at_twice(crowd, catalog)
    return seen


def reasons(kind: Kind) -> set[str]:
    """Of all conditions and events in eight histories."""
    decided = [decide(each, load()) for number in range(8) for each in played(kind, number)]
    pools = [pool for each in decided for pool in each.pools]
    conditions = {condition.explanation.reason.value for pool in pools for condition in pool.conditions}
    return conditions | {event.reason.value for pool in pools for event in pool.events}


def test_each_kind_has_its_figure(capsys: pytest.CaptureFixture[str]) -> None:
    main(["settling", "--histories", "2"], BENCHMARKS, USUAL)
    told = json.loads(capsys.readouterr().out)["results"]
    assert [f"settling-{kind.name}" for kind in KINDS] == [each["name"] for each in told]
    assert [2] * 4 == [each["details"]["histories"] for each in told]
    assert all(2 * 8 <= each["details"]["passes"] for each in told)


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_no_histories_are_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["settling", "--histories", count], BENCHMARKS, USUAL)
    assert f"{count} is no number of histories" in capsys.readouterr().err


def test_a_history_is_the_same_each_time_and_no_two_are_alike() -> None:
    first, again, other = (played(BY_NAME["split"], number) for number in (3, 3, 4))
    assert first == again
    assert first != other


def test_pools_crowd_each_other_and_each_kind_has_what_it_is_named_for() -> None:
    told = {kind.name: reasons(kind) for kind in KINDS}
    assert {"NoSlot", "HolesTooSmall", "Preempted", "EngineFailed", "NodeLost"} <= set[str]().union(*told.values())
    assert all("NoSlot" in each for each in told.values())
    assert "Preempted" not in told["flat"]
    assert ["quota"] == [name for name, each in told.items() if "BudgetExhausted" in each]
    assert ["split"] == [kind.name for kind in KINDS if any(each.splits for each in played(kind, 0))]


def test_what_a_second_call_changes_is_found_and_counted_once_a_history() -> None:
    """A `decide` by whose clock 70 seconds go by between the calls."""
    ticks = count()

    def restless(snapshot: Snapshot, catalog: Catalog) -> Decisions:
        return decide(replace(snapshot, now=snapshot.now + 70.0 * next(ticks)), catalog)

    kind = BY_NAME["priorities"]
    tally = tallied(kind, 3, partial(looked_at_twice, decide=restless), SILENT)
    assert [0, 1, 2] == tally.which
    assert 3 == tally.changed["conditions"]
    told = result(kind, tally)
    assert (100.0, False, "0 1 2") == (told.value, told.passed, told.details["which"])


def test_counts_places_conditions_and_the_rest_are_told_apart() -> None:
    first = decide(played(BY_NAME["flat"], 0)[-1], load())
    pool = first.pools[0]
    others = {
        "counts": replace(pool, recommended=pool.recommended + 1),
        "places": replace(pool, status=replace(pool.status, opening=("b-9",))),
        "conditions": replace(pool, conditions=pool.conditions[1:]),
        "others": replace(pool, status=replace(pool.status, next_replica=99)),
    }
    for name, changed in others.items():
        assert {name} == changes(first, replace(first, pools=(changed, *first.pools[1:])))
    assert not changes(first, replace(first, pools=(replace(pool, events=()), *first.pools[1:])))
