"""A simulated engine takes as long a prompt and answer as the real one of its pool would, and no longer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.twin.simulated import OUTPUT, chat, setting
from weft.domain.spec import EngineSpec
from weft.twin.simulation import simulate
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

CONTEXT = 131_072  # of the model of these pools; an empty engine of theirs has memory for several times as much


def asked(pool: PoolRecord, *tokens: int) -> list[bool]:
    """Which requests of so many tokens, prompt and answer together, are answered; they come a minute apart."""
    prompts = np.array(tokens, np.int32) - OUTPUT
    arrivals = np.arange(len(tokens), dtype=np.float64) * 60.0
    outcome = simulate(setting(Trace(arrivals, prompts, np.full(len(tokens), OUTPUT, np.int32)), pool))
    return [bool(each) for each in outcome.answers.completed]


def with_context(tokens: int | None = None, engine: EngineSpec | None = None) -> PoolRecord:
    """The pool with `maxModelLen`, and with what its engine is told."""
    pool = chat()
    assert pool.spec is not None
    model = replace(pool.spec.model, max_context_tokens=tokens)
    return replace(pool, spec=replace(pool.spec, model=model, engine=engine or pool.spec.engine))


@pytest.mark.parametrize(("pool", "longest"), [(with_context(), CONTEXT), (with_context(40_000), 40_000)])
def test_one_token_more_than_the_context_fails_though_memory_would_hold_it(pool: PoolRecord, longest: int) -> None:
    assert asked(pool, longest, longest + 1) == [True, False]


def test_a_context_that_is_stretched_by_arguments_ends_where_memory_does() -> None:
    stretched = EngineSpec(args=('--hf-overrides={"max_position_embeddings": 262144}',))
    assert asked(with_context(engine=stretched), CONTEXT, 2 * CONTEXT) == [True, True]
