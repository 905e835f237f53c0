"""Measured traffic replaces declared traffic, calmly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import seen
from weft.domain.workload import Slo, Workload
from weft.scaling import live_figures, live_workload, replaced_values

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation

DECLARED = Workload(2.0, input_tokens=1000, output_tokens=200, input_tokens_p95=3000, output_tokens_p95=600)


def traffic(inputs: float | None, outputs: float | None, rate: float = 2.0) -> PoolObservation:
    return replace(seen(rate, 1), input_tokens=inputs, output_tokens=outputs)


def test_measured_means_replace_declared_ones_and_carry_their_percentiles_along() -> None:
    live = live_workload(DECLARED, traffic(2034, 97), None)
    assert (live.input_tokens, live.output_tokens) == (2000, 96)
    assert (live.input_tokens_p95, live.output_tokens_p95) == (6000, 288)
    assert live.requests_per_second == DECLARED.requests_per_second


@given(st.floats(0.5, 1e6))
def test_a_mean_that_is_taken_over_is_at_most_a_fortieth_off(measured: float) -> None:
    taken = live_workload(replace(DECLARED, input_tokens=1e8), traffic(measured, 200), None).input_tokens
    assert abs(taken / measured - 1.0) < 0.02501
    assert float(f"{taken:.3g}") == taken


def test_pools_with_about_the_same_traffic_have_the_same_workload_in_force() -> None:
    others = (live_workload(DECLARED, traffic(measured, 100), None) for measured in (1990, 2000, 2034, 2050))
    assert len(set(others)) == 1


def test_a_mean_that_comes_back_has_the_percentile_that_it_had() -> None:
    """To the last bit, whatever came between: pools of one kind share predictions, and ask again for their own."""
    in_force, known = DECLARED, dict[float, set[Workload]]()
    for mean in (1300, 1700, 1150, 2600, 900, 700) * 3:
        in_force = live_workload(DECLARED, traffic(mean, 200), in_force)
        known.setdefault(in_force.input_tokens, set()).add(in_force)
    assert all(len(each) == 1 for each in known.values())


def test_small_differences_change_nothing() -> None:
    assert live_workload(DECLARED, traffic(1150, 180), None) == DECLARED


@pytest.mark.parametrize(
    ("measured", "rate", "p95", "taken"),
    [
        (1080, 100.0, 3000, 1100),  # a mean of six thousand lengths is off by three in a hundred at most
        (1040, 100.0, 3000, 1000),  # moves that capacity hardly feels are none
        (1080, 2.0, 3000, 1000),  # of a hundred and twenty it is chance
        (1080, 2.0, 1000, 1100),  # but for prompts that are all as long
        (1300, 2.0, 3000, 1300),  # and so much is taken over however few there were
    ],
)
def test_a_mean_moves_by_more_than_chance_explains(measured: float, rate: float, p95: float, taken: float) -> None:
    declared = replace(DECLARED, input_tokens_p95=p95)
    assert live_workload(declared, traffic(measured, 200, rate), None).input_tokens == taken


def test_values_in_force_stay_until_the_traffic_has_moved_notably() -> None:
    once = live_workload(DECLARED, traffic(2000, 200), None)
    assert live_workload(DECLARED, traffic(2300, 200), once) == once
    assert live_workload(DECLARED, None, once) == once
    assert live_workload(DECLARED, traffic(10, 10, rate=0.01), once) == once


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -5.0, 0.0])
def test_senseless_means_are_ignored(bad: float | None) -> None:
    assert live_workload(DECLARED, traffic(bad, bad), None) == DECLARED


def test_prefix_hits_follow_where_notably_more_or_less_is_computed() -> None:
    """From 90 to 85 % it is half as much again, from 10 to 5 % next to nothing."""
    observation = replace(traffic(1000, 200), prefix_hit=0.9)
    once = live_workload(DECLARED, observation, None)
    assert once.prefix_hit == 0.9
    assert live_workload(DECLARED, replace(observation, prefix_hit=0.853), once).prefix_hit == 0.85
    assert live_workload(DECLARED, replace(observation, prefix_hit=0.05), None).prefix_hit == 0.0
    assert live_workload(DECLARED, replace(observation, prefix_hit=1.0), None).prefix_hit == 0.95


def test_figures_for_the_reader_are_those_with_a_target_and_a_number() -> None:
    observation = replace(traffic(900, math.nan), ttft=((50, 0.1), (95, 0.4)), tpot=((95, math.nan),))
    figures = live_figures(observation, Slo(ttft=((95, 0.5),), tpot=((95, 0.05),)), ("inputTokens",))
    assert figures is not None
    assert figures.live == ("inputTokens",)
    assert (figures.ttft, figures.tpot, figures.output_tokens) == (((95, 0.4),), (), None)
    assert live_figures(None, Slo(), ()) is None


@pytest.mark.parametrize(
    ("observation", "names"),
    [
        (None, ()),
        (replace(traffic(4000, 200), answered=0), ()),
        (traffic(None, None, rate=math.nan), ()),
        (traffic(1100, 200), ("requestsPerSecond",)),
        (traffic(4000, 200), ("requestsPerSecond", "inputTokens")),
        (replace(traffic(1000, 20), prefix_hit=0.5), ("requestsPerSecond", "outputTokens", "prefixHitPercent")),
    ],
)
def test_what_is_in_force_is_called_live_and_nothing_else(
    observation: PoolObservation | None, names: tuple[str, ...]
) -> None:
    """1100 tokens against a declared 1000 change nothing, so inputTokens is not live."""
    assert replaced_values(DECLARED, live_workload(DECLARED, observation, None), observation) == names


def test_what_stays_in_force_stays_live_when_traffic_stops() -> None:
    once = live_workload(DECLARED, traffic(4000, 200), None)
    silent = traffic(None, None, rate=0.0)
    again = live_workload(DECLARED, silent, once)
    assert replaced_values(DECLARED, again, silent) == ("requestsPerSecond", "inputTokens")
    assert replaced_values(DECLARED, again, None) == ("inputTokens",)
    shown = live_figures(None, Slo(), ("inputTokens",))
    assert shown is not None
    assert shown.live == ("inputTokens",)
