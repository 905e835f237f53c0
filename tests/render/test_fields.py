"""Every field of an InferencePool does what it says: changed alone (F5), taken back (F6), in any order (F7)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.render.fields import BASE, PAIRS, ROWS, STEERING, Decided, Refused, Rendered, Row, laid_over, leaves_of, put
from tests.render.standing import Alone, effects, pool
from weft.api import parse_pool
from weft.api.pool import InferencePoolSpec
from weft.api.schema import structural_schema

if TYPE_CHECKING:
    from tests.render.standing import Standing
    from weft.domain.spec import PoolSpec

Json = dict[str, Any]
# Which half of a split is near the other shows in a split alone: tests/decide/test_splits.py.
SHOWN_IN_SPLITS = {"kvTransfer.locality"}
ONCE = {"role"}  # immutable


def of_kind(kind: type[Row]) -> list[str]:
    return [path for path, row in ROWS.items() if isinstance(row, kind)]


def specs(path: str) -> tuple[Json, Json]:
    """Without the row's value, and with it."""
    row = ROWS[path]
    base = laid_over(BASE, row.beside)
    return base, put(base, path, row.value)


def understood(spec: Json) -> PoolSpec:
    record = parse_pool(pool(spec))
    assert record.spec is not None, record.problem
    return record.spec


def at_first(spec: Json) -> Standing:
    """What a new pool with this spec comes to."""
    return Alone.with_spec(spec).standing()


def test_every_field_has_a_row() -> None:
    """A new field says here what it does."""
    assert set(leaves_of(structural_schema(InferencePoolSpec))) == set(ROWS)


@pytest.mark.parametrize("path", of_kind(Rendered))
def test_a_field_changed_alone_changes_what_is_rendered(path: str) -> None:
    """F5, and nothing else than it should."""
    row, (base, changed) = ROWS[path], specs(path)
    assert isinstance(row, Rendered)
    assert row.kinds == effects(at_first(base), at_first(changed))


@pytest.mark.parametrize("path", of_kind(Decided))
def test_a_field_that_renders_nothing_is_decided_on(path: str) -> None:
    """F5: it stands in what is decided on, restarts nobody, and shows as time goes by."""
    base, changed = specs(path)
    assert understood(base) != understood(changed)
    assert at_first(base) == at_first(changed)
    if path not in SHOWN_IN_SPLITS:
        assert Alone.with_spec(base).history() != Alone.with_spec(changed).history()


@pytest.mark.parametrize("path", of_kind(Refused))
def test_a_field_that_cannot_be_served_is_refused_by_name(path: str) -> None:
    """F5: nothing new starts, and what runs is left alone."""
    row, (base, changed) = ROWS[path], specs(path)
    assert isinstance(row, Refused)
    world = Alone.with_spec(changed)
    assert row.words in world.condition("chat", "Planned")[2]
    assert [] == world.pods_of("chat")
    running = Alone.with_spec(base)
    before = running.standing()
    running.become(changed)
    assert before == running.standing()
    assert row.words in running.condition("chat", "Planned")[2]


@pytest.mark.parametrize("path", [path for path in ROWS if path not in ONCE])
def test_a_field_that_is_taken_back_is_gone(path: str) -> None:
    """F6: byte for byte, but for what stays by intent."""
    row, (base, changed) = ROWS[path], specs(path)
    world = Alone.with_spec(base)
    before = world.standing()
    world.become(changed)
    world.become(base)
    stays = isinstance(row, Rendered) and bool(row.lasts)
    assert (before != world.standing()) is stays


def free_of_history() -> list[str]:
    """Rows whose value lies over the plain base, and which steer no choice of shape, node or count."""
    found = (path for path in of_kind(Rendered) if path not in ONCE and not path.startswith(STEERING))
    return [path for path in found if not ROWS[path].beside]


def steps() -> list[tuple[str, str]]:
    every = [(one, other) for one in free_of_history() for other in free_of_history() if one != other]
    return random.Random(7).sample(every, PAIRS)


@pytest.mark.parametrize(("between", "last"), steps())
def test_what_was_there_in_between_leaves_no_trace(between: str, last: str) -> None:
    """F7: A to B to C is A to C."""
    straight, around = Alone.with_spec(BASE), Alone.with_spec(BASE)
    straight.become(specs(last)[1])
    around.become(specs(between)[1])
    around.become(specs(last)[1])
    assert straight.standing() == around.standing() == at_first(specs(last)[1])
