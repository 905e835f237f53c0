"""A table of step times: straight between points, many steps in one sum, from the model or from measurements."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.perf.replica import ReplicaModel
from weft.perf.steps import stepper
from weft.twin.engine.modelled import step_table
from weft.twin.engine.steps import Grid, PiecewiseLinear, StepTable, read_table

MEASURED = """step,size,context_tokens,seconds
decode,1,1000,0.010
decode,1,3000,0.012
decode,9,1000,0.018
decode,9,3000,0.028
prompts,1000,500,0.050
"""
seconds = st.floats(0.001, 1.0)


@given(st.lists(seconds, min_size=4, max_size=4).map(sorted), st.floats(1, 300), st.integers(1, 400))
def test_a_run_takes_as_long_as_its_steps(values: list[float], length: float, steps: int) -> None:
    line = PiecewiseLinear([1.0, 50.0, 60.5, 200.0], values)
    each = [line.at(length + step) for step in range(steps)]
    assert sum(each) == pytest.approx(line.run(length, steps), rel=1e-9)


@given(
    st.lists(seconds, min_size=4, max_size=4).map(sorted), st.floats(1, 300), st.integers(1, 400), st.floats(0.01, 0.99)
)
def test_the_step_under_way_is_found(values: list[float], length: float, steps: int, part: float) -> None:
    line = PiecewiseLinear([1.0, 50.0, 60.5, 200.0], values)
    before = line.run(length, steps - 1) if steps > 1 else 0.0
    assert steps == line.within(length, before + part * line.at(length + steps - 1))


def test_measured_points_are_met_and_straight_lines_lie_between() -> None:
    table = read_table(MEASURED.splitlines())
    assert (0.010, 0.028) == pytest.approx((table.batch(1).at(1000), table.batch(9).at(3000)))
    assert (0.010 + 0.018 + 0.012 + 0.028) / 4 == pytest.approx(table.batch(5).at(2000))
    assert 0.050 == table.prompts(4000, 9000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step,size,context_tokens,seconds\ndecode,1,1,fast", "line 2"),
        ("step,size,context_tokens,seconds\nsampling,1,1,1", "line 2"),
        ("step,size\ndecode,1", "line 2"),
        (MEASURED + "decode,17,1000,0.03", "no time for"),
        (MEASURED + "prompts,9,500,0", "takes time"),
        ("", "no time"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_table(text.splitlines())


def test_a_longer_context_never_takes_less_time() -> None:
    """A measured point that says so is noise."""
    grid = Grid({(1, 1): 0.02, (1, 100): 0.01, (1, 200): 0.03})
    assert (0.02, 0.03) == (grid.at(1, 100), grid.at(1, 200))


def model(name: str, tensor: int) -> ReplicaModel:
    catalog = load()
    architecture, hardware = catalog.architecture(name), catalog.accelerator("B200")
    assert architecture is not None
    shape = Shape(EngineName.VLLM, "B200", Precision.FP8, tensor_parallel=tensor, gpus_per_pod=tensor)
    efficiency = catalog.efficiency(hardware, EngineName.VLLM, Precision.FP8)
    return ReplicaModel(architecture, shape, hardware, efficiency, hardware.memory_bytes)


@pytest.mark.parametrize(
    "replica", [model("Llama-3.3-70B-Instruct", 2), model("DeepSeek-V3", 8)], ids=["dense", "experts"]
)
def test_the_table_of_a_replica_is_what_the_model_says(replica: ReplicaModel) -> None:
    """Also between its points, within 2 %."""
    table, steps = step_table(replica, 256, 8192), stepper(replica)
    for batch, context in ((1, 90), (7, 700), (33, 3000), (120, 1400), (256, 9000)):
        assert steps.decode(batch, context).seconds == pytest.approx(table.batch(batch).at(context), rel=0.02)
    for tokens, cached in ((20, 3000), (333, 0), (1500, 0), (8192, 0), (5000, 20_000)):
        expected = steps.prefill(tokens, cached, 1.0).seconds
        assert expected == pytest.approx(table.prompts(tokens, cached + tokens / 2), rel=0.02)
    assert steps.prefill(500, 0.0, 1.0).launch == pytest.approx(table.launch_seconds)


@pytest.mark.parametrize(
    ("tokens", "decode", "waits"), [(1024, 0.0, 0), (1025, 0.0, 1), (1500, 0.02, 1), (8192, 0.2, 0)]
)
def test_a_step_that_no_graph_holds_takes_as_long_as_the_host_launches_it(
    tokens: int, decode: float, waits: int
) -> None:
    """Whatever it decodes beside, and also where it decodes nothing."""
    replica = model("Llama-3.3-70B-Instruct", 8)
    table = step_table(replica, 256, 8192)
    working = stepper(replica).prefill(tokens, 0, 1.0, beside=1.0).seconds
    working += decode - table.launch_seconds if decode else 0.0
    assert waits == (working < 0.064 and tokens > 1024)
    assert table.prompts(tokens, tokens / 2, decode) == pytest.approx(0.064 if waits else working, rel=0.02)


def test_a_graph_holds_what_is_decoded_beside_prompts_too() -> None:
    """One token of each sequence; a prompt of 800 tokens fits with 224 of them, and not with one more."""
    table = step_table(model("Llama-3.3-70B-Instruct", 8), 256, 8192)
    fits, outgrows = (table.prompts(800, 400, 0.01, decoding) for decoding in (224, 225))
    assert fits < 0.03 < outgrows == pytest.approx(0.064, rel=0.02)


def test_short_prompts_that_share_a_step_take_less_than_one_long_prompt() -> None:
    """Only attention does: the rest is the same work."""
    replica = model("Llama-3.3-70B-Instruct", 2)
    table, steps = step_table(replica, 256, 8192), stepper(replica)
    long, short = steps.prefill(8000, 0.0, 1.0), steps.prefill(1000, 0.0, 1.0)
    spared = long.parts.attention - 8 * short.parts.attention
    assert long.seconds - spared == pytest.approx(table.prompts(8000, 500), rel=0.02)
    assert not math.isclose(table.prompts(8000, 500), table.prompts(8000, 4000), rel_tol=0.01)


def test_a_table_needs_points() -> None:
    with pytest.raises(ValueError, match="no time for anything"):
        StepTable({}, {(1, 1): 1.0})
