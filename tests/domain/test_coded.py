"""Values of the domain are read as they were written, and nothing else is read."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft.domain
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.catalog import load
from weft.decide import decide
from weft.domain.coded import NotCoded, _is_ours, _kinds, coded, decoded
from weft.domain.moves import MoveBudget
from weft.domain.reasons import Explanation, Reason
from weft.domain.transport import Transport
from weft.domain.workload import Workload

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers() | st.tuples(st.text(), st.integers())
VALUES = st.recursive(
    PLAIN | st.sampled_from(Reason) | st.builds(Explanation, st.sampled_from(Reason), st.text()),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.frozensets(st.text() | st.integers())
    ),
    max_leaves=20,
)


def through_json(value: object) -> object:
    return decoded(json.loads(json.dumps(coded(value))))


@given(VALUES)
def test_what_is_read_is_what_was_written(value: object) -> None:
    found = through_json(value)
    assert found == value
    assert repr(found) == repr(value) or isinstance(value, dict | list | tuple | frozenset)


def test_a_number_keeps_its_type() -> None:
    """1 and 1.0 are equal, and not the same bytes."""
    for rate in (1, 1.0, math.inf):
        found = through_json(Workload(rate, 1, 1, 1, 1))
        assert isinstance(found, Workload)
        assert repr(found.requests_per_second) == repr(rate)
    assert math.isnan(through_json(math.nan))  # type: ignore[arg-type]


def test_a_whole_pass_is_read_as_it_was() -> None:
    cluster = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(2, external(3))))
    cluster.turn(6)
    assert "blind_seconds" not in coded(cluster.snapshot()), "as in records of before there was such a field"
    snapshot = replace(cluster.snapshot(), budget=MoveBudget(2, 1), blind_seconds=7.0)
    decisions = decide(snapshot, load())
    assert (through_json(snapshot), through_json(decisions)) == (snapshot, decisions)
    assert json.dumps(coded(decide(through_json(snapshot), load()))) == json.dumps(coded(decisions))  # type: ignore[arg-type]


def test_the_transport_of_a_split_is_read_as_it_was() -> None:
    wire = Transport("RDMA", 45e9, 0.031, 0.052)
    assert through_json(wire) == wire


def test_every_value_of_the_domain_is_known_but_those_of_one_pass() -> None:
    """The fabric, capacities and who is in front are made anew in each pass; actions follow from a decision."""
    modules = (
        importlib.import_module(each.name) for each in pkgutil.walk_packages(weft.domain.__path__, "weft.domain.")
    )
    kinds = {kind for module in modules for kind in vars(module).values() if _is_ours(kind)}
    of_one_pass = {f"weft.domain.{name}" for name in ("action", "capacity", "crews", "fabric")}
    assert of_one_pass == {kind.__module__ for kind in kinds - {*_kinds().values()}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"~": "Path", "is": "/etc"},
        {"~": "Reason", "is": "NoSuchReason"},
        {"~": "Reason"},
        {"~": "Explanation", "reason": 1, "more": 2},
        {"~": "set"},
        {"~": ["list"]},
        {"~": "number", "is": "many"},
        {"~": "Explanation", "reason": "NoSlot", "message": "a text in place of a reason"},
        {"~": "Explanation", "reason": {"~": "Reason", "is": "NoSlot"}, "message": 5},
        {"~": "Slo", "ttft": [[95, "1s"]]},
        {"~": "Slo", "ttft": [[95, 1.0, 2.0]]},
        {"~": "Slo", "ttft": [[True, 1.0]]},
    ],
)
def test_nothing_else_is_read(wrong: object) -> None:
    with pytest.raises(NotCoded):
        decoded(wrong)


@pytest.mark.parametrize("value", [object(), Exception("x"), b"bytes", load()])
def test_nothing_else_is_written(value: object) -> None:
    with pytest.raises(NotCoded):
        coded(value)
