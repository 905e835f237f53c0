"""What a split shows of its traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_splits import half, split_world
from tests.scaling.cases import seen
from weft.decide.telling.pair_figures import figures_of_pair
from weft.domain.snapshot import Caveat
from weft.domain.status import Observed
from weft.domain.workload import Role, Slo

if TYPE_CHECKING:
    from tests.decide.world import World

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


def late_world() -> World:
    """Both halves have targets; a prefill engine counts 0 s for each token after the first, as there is none."""
    slo = Slo(ttft=((95, 1.0),), tpot=((95, 0.04),))
    prefill, decode = (replace(half(role), slo=slo) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.turn(5)
    no_tokens = replace(seen(8.0, 1), ttft=((95, 0.4),), tpot=((95, 0.0),), tpot_mean=0.0)
    world.observations = {
        "uid-pd-prefill": replace(no_tokens, unresolved=(("tpot", 95),), caveats=(Caveat("blurred", "tpot"),)),
        "uid-pd-decode": replace(seen(8.0, 1), ttft=((95, 0.5),), tpot=((95, 0.03),), transfer_seconds=0.03),
    }
    world.turn()
    return world


def test_a_prefill_half_has_no_time_per_token() -> None:
    world = late_world()
    observed = world.pools["pd-prefill"].status.observed
    assert observed is not None
    assert (((95, 0.4),), (), ()) == (observed.ttft, observed.tpot, observed.caveats)
    assert ("True", "WithinSLO", "p95 TTFT within target") == world.condition("pd-prefill", "SLOMet")


def test_nor_has_one_that_is_held_without_a_plan() -> None:
    """It serves on, and its SLO is judged on as before: by what a prefill engine can measure."""
    world = late_world()
    before = world.condition("pd-prefill", "SLOMet")
    world.nodes.clear()
    world.decide()
    assert "NoAccelerator" == world.condition("pd-prefill", "Planned")[1]
    assert ("True", "WithinSLO", "p95 TTFT within target") == before == world.condition("pd-prefill", "SLOMet")


def test_a_split_tells_what_each_half_knows() -> None:
    """Both of the SLO, where it is met, and of KV transfers the half that times them."""
    world = late_world()
    assert world.last is not None
    told = {each.kind: each for each in world.last.splits[0].conditions}
    assert "Prefill pool: p95 TTFT within target; Decode pool: p95 TTFT, p95 TPOT within target" == (
        told["SLOMet"].explanation.message
    )
    assert ("Unknown", "MetricsMissing") == world.condition("pd-prefill", "NetworkBound")[:2]
    assert ("False", "Decode pool: KV transfer is not what TTFT waits for") == (
        told["NetworkBound"].status,
        told["NetworkBound"].explanation.message,
    )


def test_both_halves_are_sized_for_prompts_that_prefill_reads_and_answers_that_decode_writes() -> None:
    """A prefill engine answers with one token, and to decode most of a prompt comes as KV."""
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    prefill = replace(seen(8.0, 1), input_tokens=4000.0, input_tokens_p95=6000.0)
    world.observations = {
        "uid-pd-prefill": replace(prefill, output_tokens=1.0, output_tokens_p95=1.0),
        "uid-pd-decode": replace(seen(8.0, 1), input_tokens=16.0, output_tokens=300.0, output_tokens_p95=1200.0),
    }
    world.turn(5)
    for uid in world.observations:
        live = world.memory[uid].workload
        assert live is not None
        assert (4000.0, 6000.0) == pytest.approx((live.input_tokens, live.input_tokens_p95), rel=0.1)
        assert (300.0, 1200.0) == pytest.approx((live.output_tokens, live.output_tokens_p95), rel=0.1)
