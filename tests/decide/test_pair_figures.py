"""What a split shows of its traffic."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.test_splits import half, split_world
from tests.scaling.cases import seen
from weft.decide.pair_figures import figures_of_pair
from weft.domain.status import Observed
from weft.domain.workload import Role

PREFILL = Observed(8.0, 4000.0, 1.0, 0.2, ((95, 0.4),), (), 0.97, ("requestsPerSecond", "inputTokens"))
DECODE = Observed(7.9, 4000.0, 300.0, 0.0, ((95, 0.1),), ((95, 0.03),), 0.99, ("requestsPerSecond", "outputTokens"))


def test_prompts_are_seen_by_prefill_and_answers_by_decode() -> None:
    names = ("requestsPerSecond", "inputTokens", "outputTokens")
    assert figures_of_pair(PREFILL, DECODE) == Observed(
        8.0, 4000.0, 300.0, 0.2, ((95, 0.4),), ((95, 0.03),), 0.97, names
    )


def test_half_a_pair_shows_its_half() -> None:
    assert figures_of_pair(None, None) is None
    alone = figures_of_pair(None, DECODE)
    assert alone is not None
    assert (alone.requests_per_second, alone.ttft, alone.tpot) == (None, (), ((95, 0.03),))


def test_a_split_shows_what_its_pools_measure() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    assert world.last is not None
    assert world.last.splits[0].observed is None
    world.observations = {
        "uid-pd-prefill": replace(seen(8.0, 1), input_tokens=4000.0, output_tokens=1.0, ttft=((50, 0.2), (95, 0.4))),
        "uid-pd-decode": replace(seen(8.0, 1), output_tokens=300.0, ttft=((95, 9.0),), tpot=((95, 0.03),)),
    }
    world.turn()
    figures = world.last.splits[0].observed
    assert figures is not None
    assert (figures.requests_per_second, figures.input_tokens, figures.output_tokens) == (8.0, 4000.0, 300.0)
    assert (figures.ttft, figures.tpot) == (((50, 0.2), (95, 0.4)), ((95, 0.03),))
    assert {"inputTokens", "outputTokens"} < set(figures.live)
