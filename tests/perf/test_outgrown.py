"""Steps that outgrow a captured graph by all that they hold: a chain against its simulation, and its bounds."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.perf.latency import PERCENTILES
from weft.perf.lengths import Lengths, lengths, with_rare_ones
from weft.perf.outgrown import NEVER, LaunchWait, Outgrown, StepPace, fitting, outgrown

ROOM = 512.0


def _poisson(mean: float, generator: random.Random) -> int:
    number, left = 0, generator.expovariate(1.0)
    while left < mean:
        number, left = number + 1, left + generator.expovariate(1.0)
    return number


def simulated(inputs: Lengths, batch: float, pace: StepPace, steps: int = 60_000) -> Outgrown:
    """Step by step at a rate, of which `pace.came` is what came of it."""
    generator, prompts = random.Random(1), Counter[bool]()
    before, came, launches, follows = False, 0, 0, Counter[tuple[bool, bool]]()
    for _ in range(steps):
        tokens = sum(
            inputs.median * math.exp(inputs.deviation * generator.gauss(0.0, 1.0)) for _ in range(came)
        ) + generator.gauss(batch, math.sqrt(batch))
        launched = came > 0 and tokens > ROOM
        prompts[launched] += came
        follows[before, launched] += 1
        launches, before = launches + launched, launched
        came = _poisson(RATE * (pace.launch if launched else pace.step + came * pace.prompt), generator)
    goes_on = follows[True, True] / max(1, follows[True, True] + follows[True, False])
    begins = follows[False, True] / (follows[False, True] + follows[False, False])
    joining = prompts[True] / prompts.total()
    return Outgrown(launches / steps, prompts[True] / max(1, launches), joining, (0.0, 0.0), goes_on - begins)


RATE = 30.0


@pytest.mark.parametrize(("tokens", "long"), [(300, 300), (200, 400), (450, 800), (100, 100)])
@pytest.mark.parametrize("batch", [20.0, 100.0, 250.0])
def test_launched_steps_are_as_many_as_in_a_simulation(tokens: float, long: float, batch: float) -> None:
    """At the prompts that came in a simulation, whatever they made of its steps."""
    inputs, bare = lengths(tokens, long), StepPace(0.0, 0.008, 0.064, 0.004)
    found = simulated(inputs, batch, bare)
    mean = (1.0 - found.part) * 0.008 + found.part * 0.064 + 0.004 * RATE * 0.008 * (1.0 - found.part)
    said = outgrown(fitting((inputs, 1.0), ROOM, batch, 1.0), bare._replace(came=RATE * mean))
    assert found.part == pytest.approx(said.part, rel=0.2, abs=0.004)
    if found.part > 0.01:
        assert found.joining == pytest.approx(said.joining, rel=0.15)
        assert found.sharing == pytest.approx(said.sharing, rel=0.15)
        assert found.lasts == pytest.approx(said.lasts, abs=0.1)


PACES = st.builds(StepPace, st.floats(0.01, 50), st.floats(0.002, 0.06), st.just(0.064), st.just(0.001))


@example(inputs=lengths(14.0, 14.0), pace=StepPace(17.0, 0.002, 0.064, 0.001))  # full within a few prompts
@example(inputs=lengths(15.0, 15.0), pace=StepPace(14.0, 0.002, 0.064, 0.001))  # neither begins nor ends in years
@example(inputs=lengths(14.0, 14.0 * 1.8255640713109964), pace=StepPace(4.880944052909798, 0.002, 0.064, 0.001))
@given(inputs=st.builds(lambda mean, wide: lengths(mean, wide * mean), st.floats(5, 2000), st.floats(1, 3)), pace=PACES)
@pytest.mark.parametrize("batch", [1.0, 60.0, 300.0, 600.0])
@pytest.mark.parametrize("ranks", [1.0, 8.0])
def test_parts_are_parts_and_more_prompts_or_sequences_launch_no_fewer_steps(
    batch: float, ranks: float, inputs: Lengths, pace: StepPace
) -> None:
    def of(batch: float, came: float) -> Outgrown:
        return outgrown(fitting((inputs, 1.0), ROOM, batch, ranks), pace._replace(came=came))

    found = of(batch, pace.came)
    assert all(-1e-9 <= each <= 1.0 + 1e-9 for each in (found.part, found.joining, *found.joins))
    assert found.part <= of(batch, 1.2 * pace.came).part * 1.01 + 1e-3
    assert found.part <= of(batch + 50.0, pace.came).part * 1.01 + 1e-3


def test_what_no_graph_holds_is_launched_and_what_hardly_comes_is_not() -> None:
    alone = outgrown(fitting((lengths(1000, 1000), 1.0), ROOM, 10.0, 1.0), StepPace(2.0, 0.02, 0.064, 0.0))
    assert alone.joining == pytest.approx(1.0, abs=1e-3)
    assert outgrown(fitting((lengths(50, 50), 1.0), ROOM, 10.0, 1.0), StepPace(1e-6, 0.02, 0.064, 0.0)) == NEVER


def test_of_rare_long_prompts_each_is_launched() -> None:
    rare = fitting((with_rare_ones(150.0, (0.01, 20.0), math.inf), 1.0), ROOM, 10.0, 1.0)
    usual = fitting((lengths(121.0, 121.0), 1.0), ROOM, 10.0, 1.0)
    assert rare.terms[-2] == pytest.approx(0.99 * usual.terms[-2])  # of one prompt


def test_ranks_in_lockstep_are_launched_together() -> None:
    one, eight = (fitting((lengths(300, 300), 1.0), ROOM, 50.0, ranks) for ranks in (1.0, 8.0))
    assert 1.0 - eight.outgrows(0.1) == pytest.approx((1.0 - one.outgrows(0.1)) ** 8)
    assert one.joins(0.1) < eight.joins(0.1)


PARTS = st.floats(0.0, 0.33)


@given(PARTS, PARTS, PARTS)
def test_percentiles_of_a_wait_for_launches_are_those_of_a_sample(own: float, rest: float, both: float) -> None:
    generator, found = random.Random(1), LaunchWait(0.05, own, rest, both)
    sample = []
    for _ in range(4000):
        at, part = generator.random(), generator.random()
        waits = part if at < rest else 1.0 if at < rest + own else 1.0 + part if at < rest + own + both else 0.0
        sample.append(0.05 * waits)
    sample.sort()
    assert sum(sample) / 4000 == pytest.approx(found.mean, abs=0.003)
    for percentile in PERCENTILES:
        low, high = (sample[min(3999, max(0, round(40 * percentile) + each))] for each in (-100, 60))
        assert low - 1e-9 <= found.at(percentile) <= high + 0.05 * (high == sample[-1]) + 1e-9


@given(st.floats(0.01, 0.99), st.floats(0.0, 0.99), st.floats(1.0, 1000.0))
def test_the_mean_of_many_steps_varies_less_but_never_more_than_one_does(
    part: float, lasts: float, steps: float
) -> None:
    """As a sum of covariances of a chain, which fall by `lasts` each step."""
    found = Outgrown(part, 1.0, 1.0, (1.0, 1.0), lasts, 0.0, 0.05)
    whole = max(1, round(steps))
    once = part * (1.0 - part) * 0.05**2
    summed = sum((whole - each) * lasts**each * (2.0 if each else 1.0) for each in range(whole)) / whole**2
    assert found.variance(float(whole)) == pytest.approx(once * summed, rel=1e-6)
