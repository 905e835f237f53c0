"""What a user's arguments say of captured graphs, and what a plan counts on then."""

from __future__ import annotations

import math

import pytest

from tests.shaping.cases import CATALOG, H200, Wish
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec
from weft.engines.options.batches import counted_on
from weft.engines.options.graphs import captured_tokens
from weft.perf.steps import stepper
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase


@pytest.mark.parametrize(
    ("args", "tokens"),
    [
        ((), None),
        (("--max-num-seqs", "64"), None),
        (("--max-cudagraph-capture-size", "2048"), 2048),
        (("--max_cudagraph_capture_size=256",), 256),
        (("--cudagraph-capture-sizes", "1", "64", "8", "--max-num-seqs", "512"), 64),
        (("--cudagraph-capture-sizes=16",), 16),
        (("-cc", '{"max_cudagraph_capture_size": 768}'), 768),
        (('--compilation-config={"cudagraph_capture_sizes": [1, 2, 96]}',), 96),
        (("-cc.max_cudagraph_capture_size=640",), 640),
        (("--compilation-config.cudagraph_mode", "NONE"), 0),
        (("-cc", '{"cudagraph_mode": "none", "max_cudagraph_capture_size": 768}'), 0),
        (("-cc", '{"cudagraph_mode": "PIECEWISE"}'), None),
        (("--enforce-eager", "--max-cudagraph-capture-size", "256"), 0),
        (("--enforce-eager", "--no-enforce-eager"), None),
        (("--max-cudagraph-capture-size", "many"), None),
        (("-cc", "{not JSON"), None),
        (("-cc", f'{{"cudagraph_mode": {"[" * 4000}'), None),
        (("-cc", "3"), None),
        (("-cc", '{"cudagraph_capture_sizes": 8}'), None),
        (("--cudagraph-capture-sizes",), None),
    ],
)
def test_the_largest_graph_that_arguments_ask_for(args: tuple[str, ...], tokens: float | None) -> None:
    assert tokens == captured_tokens(args)


def held(args: tuple[str, ...], engine: EngineName = EngineName.VLLM, model: str = "Llama-3.1-8B-Instruct") -> float:
    """Tokens of the largest step with a graph that a plan counts on."""
    chosen = Shape(engine, "H200", Precision.BF16)
    wish = Wish(model, engine=EngineSpec(engine, args=args))
    found = ShapeCase(Option(chosen, H200, CATALOG.accelerator("H200")), wish.request(), CATALOG).replica
    return stepper(found).work.graph_tokens


def test_a_plan_counts_on_the_users_graphs_whatever_runs_at_once_and_else_on_twice_that() -> None:
    assert held(()) == 512
    assert held(("--max-num-seqs", "100")) == 200
    assert held(("--max-num-seqs", "100", "--max-cudagraph-capture-size", "800")) == 800
    assert held(("--enforce-eager",)) == 0


def test_what_vllm_asks_for_by_itself_counts_whatever_runs_at_once_unless_the_user_asks() -> None:
    """`GptOssForCausalLMConfig` sets the largest graph as an argument does."""
    assert held((), model="gpt-oss-20b") == 1024
    assert held(("--max-num-seqs", "100"), model="gpt-oss-20b") == 1024
    assert held(("--max-cudagraph-capture-size", "256"), model="gpt-oss-20b") == 256
    assert held(("--enforce-eager",), model="gpt-oss-20b") == 0


def test_no_other_engine_reads_vllms_arguments() -> None:
    assert held(("--max-cudagraph-capture-size", "800"), EngineName.SGLang) == 0


def test_arguments_about_other_things_leave_the_same_coefficients() -> None:
    known = CATALOG.efficiency(CATALOG.accelerator("H200"), EngineName.VLLM, Precision.BF16)
    shape = Shape(EngineName.VLLM, "H200", Precision.BF16)
    assert counted_on(known, EngineSpec(args=("--seed", "1")), shape) is known
    assert counted_on(known, EngineSpec(args=("--enforce-eager",)), shape).graph_sequences == math.inf


@pytest.mark.parametrize(("version", "tokens"), [(None, 1024), ("0.28.0", 1024), ("0.27.1", 512)])
def test_a_plan_counts_on_the_graphs_of_the_release_that_will_run(version: str | None, tokens: float) -> None:
    chosen = Shape(EngineName.VLLM, "B200", Precision.FP8)
    wish = Wish("Llama-3.1-8B-Instruct", engine=EngineSpec(EngineName.VLLM, version=version))
    found = ShapeCase(Option(chosen, H200, CATALOG.accelerator("B200")), wish.request(), CATALOG).replica
    assert tokens == found.efficiency.graph_tokens
