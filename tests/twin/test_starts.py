"""How long a start takes in a simulation: as planned at first, and in another shape as estimated for that one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import pool, pool_spec
from tests.render.pools import plan, shape
from weft.catalog import load
from weft.domain.spec import ModelSource, SourceKind
from weft.domain.values.changed import changed
from weft.perf import estimated_start
from weft.twin.cluster.start_up import StartPhases
from weft.twin.cluster.starts import Starts

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord

KNOWN = load()
GIVEN, USUAL = StartPhases(weights_seconds=77.0), StartPhases(weights_seconds=99.0)
CLAIM = ModelSource(SourceKind.PVC, "weights")
NARROW, WIDE = (plan(shape(gpus), weight_bytes=140e9) for gpus in (1, 8))


def chat(planned: Plan) -> PoolRecord:
    """A pool with a claim, from which each GPU reads its part of the weights by itself."""
    spec = pool_spec(1)
    found = pool("chat", replace(spec, model=replace(spec.model, source=CLAIM)))
    return changed(found, status=replace(found.status, plan=planned))


def starts() -> Starts:
    key = chat(NARROW).key
    return Starts(USUAL, {(key.namespace, key.name): GIVEN}, KNOWN)


def test_a_pool_takes_what_was_planned_as_long_as_it_has_its_first_shape() -> None:
    known = starts()
    assert [GIVEN, GIVEN] == [known.of(chat(NARROW)), known.of(chat(NARROW))]
    assert GIVEN == starts().of(chat(WIDE))


def test_in_another_shape_it_takes_what_is_estimated_for_that_and_in_its_first_again_what_was_planned() -> None:
    known = starts()
    known.of(chat(WIDE))
    found, architecture = known.of(chat(NARROW)), KNOWN.architecture("meta-llama/Llama-3.1-8B-Instruct")
    assert architecture is not None
    told = estimated_start(architecture, NARROW, CLAIM, KNOWN.starting)
    assert (told.image, told.weights, told.engine) == (
        round(found.image_seconds),
        round(found.weights_seconds),
        round(found.compile_seconds + found.capture_seconds),
    )
    assert found.weights_seconds != StartPhases().weights_seconds
    assert GIVEN == known.of(chat(WIDE))


def test_a_time_that_was_said_holds_for_every_shape() -> None:
    known = Starts(USUAL, {}, KNOWN)
    assert [USUAL, USUAL] == [known.of(chat(NARROW)), known.of(chat(WIDE))]
