"""What the KV cache may take where a user's arguments say so: plans count on it, or name what they cannot count."""

from __future__ import annotations

import math

import pytest

from tests.shaping.cases import CATALOG, DEEPSEEK, H100, H200, LLAMA_8B, Wish, reasons
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, ShapePins
from weft.domain.texts.units import GIB
from weft.engines.options.memory import memory_conflict, said_of_memory
from weft.perf import footprint, kv_tokens
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

VLLM, SGLANG = EngineName.VLLM, EngineName.SGLang
GEMMA, QWEN_NEXT = "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"
ONE_GPU = ShapePins(tensor_parallel=1)


def case(engine: EngineName, *args: str, tensor: int = 1, context: int = 1) -> ShapeCase:
    """Llama 3.1 8B on H200s, whose engine is told so."""
    shape = Shape(engine, "H200", Precision.BF16, tensor_parallel=tensor, decode_context_parallel=context)
    wish = Wish(LLAMA_8B, engine=EngineSpec(engine, args=args))
    return ShapeCase(Option(shape, H200, CATALOG.accelerator("H200")), wish.request(), CATALOG)


def room(engine: EngineName, *args: str) -> float:
    """Bytes of a GPU that are left for KV."""
    return footprint(case(engine, *args).replica).room_bytes


def tokens(engine: EngineName, *args: str, tensor: int = 1, context: int = 1) -> int:
    """Tokens of KV that the replica holds."""
    return kv_tokens(case(engine, *args, tensor=tensor, context=context).replica, 1000)


@pytest.mark.parametrize(
    ("engine", "args", "usual"),
    [
        (VLLM, ("--gpu-memory-utilization", "0.5"), 0.9),
        (VLLM, ("--gpu_memory_utilization=.5",), 0.9),
        (VLLM, ("--gpu-mem", "0.5"), 0.9),
        (VLLM, ("--gpu-memory-utilization", "0.7", "--gpu-memory-utilization", "5e-1"), 0.9),
        (VLLM, ("--device-memory-utilization", "0.5"), 0.9),
        (VLLM, ("--gpu-memory-utilization", "0.7", "--device_memory_utilization=0.5"), 0.9),
        (VLLM, ("--device-memory-utilization", "0.7", "--gpu-mem", "0.5"), 0.9),
        (SGLANG, ("--mem-fraction-static", "0.5"), 0.88),
        (SGLANG, ("--mem-frac=0.5",), 0.88),
    ],
)
def test_a_part_of_memory_is_counted_in_place_of_the_usual_one(
    engine: EngineName, args: tuple[str, ...], usual: float
) -> None:
    less = (usual - 0.5) * H200.memory_bytes
    assert math.isclose(room(engine) - less, room(engine, *args))


@pytest.mark.parametrize(
    ("value", "wanted"), [("15000000000", 15e9), ("15g", 15e9), ("15G", 15 * GIB), ("1.5g", 1.5e9), ("20000m", 20e9)]
)
def test_bytes_of_kv_go_before_a_part_of_memory(value: str, wanted: float) -> None:
    assert wanted == pytest.approx(room(VLLM, "--kv-cache-memory-bytes", value))
    assert wanted == pytest.approx(room(VLLM, "--gpu-memory-utilization", "0.2", "--kv-cache-memory-bytes", value))


def test_bytes_of_kv_may_be_more_than_the_usual_part_leaves_but_no_more_than_the_device_has() -> None:
    more = room(VLLM) + 4 * GIB
    assert more == pytest.approx(room(VLLM, "--kv-cache-memory-bytes", str(int(more))))
    assert room(VLLM, "--kv-cache-memory-bytes", "125G") == pytest.approx(room(VLLM, "--gpu-memory-utilization", "1"))


def test_blocks_are_counted_by_their_size_and_go_before_bytes() -> None:
    """One of vLLM's blocks is never used, and GPUs that share a context have so many each."""
    blocks = ("--num-gpu-blocks-override", "1001", "--block-size", "32")
    assert tokens(VLLM, *blocks) == 32_000
    assert tokens(VLLM, *blocks, "--kv-cache-memory-bytes", "1G") == 32_000
    assert tokens(VLLM, *blocks, tensor=16, context=2) == 64_000


def test_tokens_are_a_limit_to_what_the_part_of_memory_leaves() -> None:
    assert tokens(SGLANG, "--max-total-tokens", "50000") == 50_000
    assert tokens(SGLANG, "--max-total-tokens", "50000000") == tokens(SGLANG)


def test_options_of_the_other_engine_and_on_processors_change_nothing() -> None:
    assert room(SGLANG, "--gpu-memory-utilization", "0.5") == room(SGLANG)
    assert room(VLLM, "--mem-fraction-static", "0.5", "--max-total-tokens", "9") == room(VLLM)


@pytest.mark.parametrize("none", ["--kv-cache-memory-bytes=", "--kv-cache-mem=None", "--num-gpu-blocks-override=None"])
def test_vllm_takes_none_for_not_said(none: str) -> None:
    assert memory_conflict((none,), VLLM) is None
    assert room(VLLM, none) == room(VLLM)
    assert room(VLLM, "--kv-cache-memory-bytes", "9g", "--kv-cache-memory-bytes", "None") == room(VLLM)


def plan_fails(engine: EngineName, *args: str, model: str = LLAMA_8B) -> str:
    """Why nothing is planned on one H100."""
    with pytest.raises(Invalid) as refused:
        Wish(model, (H100,), engine=EngineSpec(engine, args=args), pins=ONE_GPU).plan()
    assert refused.value.reason is Reason.ArgumentConflict
    return refused.value.message


@pytest.mark.parametrize(
    ("engine", "args", "part"),
    [
        (VLLM, ("--gpu-memory-utilization", "90"), "90 is no part of a GPU's memory; allowed: above 0 and up to 1"),
        (VLLM, ("--gpu-memory-utilization", "0"), "0 is no part"),
        (VLLM, ("--gpu-memory-utilization", "nan"), "nan is no part"),
        (SGLANG, ("--mem-fraction-static", "most"), "most is no part"),
        (VLLM, ("--gpu-memory-utilization", "-0.5"), "--gpu-memory-utilization -0.5 is no part"),
        (VLLM, ("--gpu-memory-utilization",), "--gpu-memory-utilization has no value; allowed: above 0 and up to 1"),
        (VLLM, ("--gpu-memory-utilization=",), "--gpu-memory-utilization has no value"),
        (VLLM, ("--kv-cache-memory-bytes",), "--kv-cache-memory-bytes has no value; allowed: digits alone, which"),
        (SGLANG, ("--max-total-tokens=",), "--max-total-tokens has no value; allowed: digits alone"),
        (VLLM, ("--kv-cache-memory-bytes", "15GiB"), "15GiB is no whole number above 0; allowed: digits alone, which"),
        (VLLM, ("--kv-cache-memory-bytes", "40.5G"), "40.5G is no whole number"),
        (VLLM, ("--kv-cache-memory-bytes", "1e9"), "1e9 is no whole number"),
        (VLLM, ("--kv-cache-memory-bytes", "9000000000.5"), "9000000000.5 is no whole number"),
        (SGLANG, ("--max-total-tokens", "-1"), "--max-total-tokens -1 is no whole number above 0; allowed: digits"),
        (SGLANG, ("--max-total-tokens", "90k"), "--max-total-tokens 90k is no whole number"),
        (VLLM, ("--num-gpu-blocks-override", "9k", "--block-size", "16"), "9k is no whole number"),
        (VLLM, ("--num-gpu-blocks-override", "900"), "needs --block-size beside it"),
        (
            VLLM,
            ("--num-gpu-blocks-override", "11", "--block-size", "16"),
            "leaves a KV cache of 160 tokens, and a sequence of 2400 tokens does not fit",
        ),
        (VLLM, ("--kv-cache-memory-bytes", "100m"), "leaves 0.1 GiB of KV cache on each GPU, and a sequence of 2400"),
        (VLLM, ("--kv-cache-memory-bytes", "70G"), "70.0 GiB of each GPU for the KV cache beside 15.0 GiB of weights"),
    ],
)
def test_what_cannot_be_counted_or_cannot_be_is_refused_by_name(
    engine: EngineName, args: tuple[str, ...], part: str
) -> None:
    message = plan_fails(engine, *args)
    assert message.startswith("spec.engine.args ")
    assert args[0].rstrip("=") in message
    assert part in message


@pytest.mark.parametrize("size", ["1", "9000G"])
def test_a_size_that_no_shape_takes_is_told_once_and_not_for_each_of_them(size: str) -> None:
    wish = Wish(LLAMA_8B, (H100, H200), engine=EngineSpec(VLLM, args=("--kv-cache-memory-bytes", size)))
    with pytest.raises(Invalid) as refused:
        wish.plan()
    assert refused.value.message.count("--kv-cache-memory-bytes") == 1


@pytest.mark.parametrize("model", [GEMMA, QWEN_NEXT, DEEPSEEK])
def test_tokens_are_refused_where_layers_keep_them_in_other_ways(model: str) -> None:
    blocks = ("--num-gpu-blocks-override", "9000", "--block-size", "16")
    wish = Wish(model, (H200,), engine=EngineSpec(VLLM, args=blocks))
    with pytest.raises(Invalid, match=r"cannot be counted for .*; use --kv-cache-memory-bytes"):
        wish.plan()
    wish = Wish(model, (H200,), engine=EngineSpec(SGLANG, args=("--max-total-tokens", "90000")))
    with pytest.raises(Invalid, match=r"--max-total-tokens cannot be counted for .*; use --mem-fraction-static"):
        wish.plan()


def test_a_smaller_part_of_memory_takes_another_shape_and_says_why() -> None:
    wish = Wish(LLAMA_8B, (H100,), engine=EngineSpec(VLLM, args=("--gpu-memory-utilization", "0.15")), rate=1)
    plan = wish.plan()
    assert plan.shape.tensor_parallel == 2
    assert reasons(plan)["H100 BF16 TP1"] is Reason.OutOfMemory
    verdict = next(each.verdict for each in plan.alternatives if each.shape.tensor_parallel == 1)
    assert verdict.message.endswith("can be used with spec.engine.args --gpu-memory-utilization 0.15")


@pytest.mark.parametrize(
    ("engine", "args", "wanted"),
    [
        (
            SGLANG,
            ("--max-total-tokens", "9000", "--mem-frac", "0.1"),
            "--max-total-tokens 9000 and --mem-fraction-static 0.1",
        ),
        (VLLM, ("--gpu-mem=0.1", "--device-memory-utilization", "0.2"), "--device-memory-utilization 0.2"),
        (VLLM, ("--gpu-mem=0.1", "--kv-cache-memory-bytes", "9g"), "--kv-cache-memory-bytes 9g"),
        (VLLM, ("--seed", "1"), ""),
    ],
)
def test_all_that_decides_how_much_memory_there_is_is_named(
    engine: EngineName, args: tuple[str, ...], wanted: str
) -> None:
    assert wanted == said_of_memory(args, engine)


def test_capacity_follows_the_kv_cache_that_the_engine_will_have() -> None:
    def capacity(*args: str) -> float:
        wish = Wish(LLAMA_8B, (H100,), engine=EngineSpec(VLLM, args=args), pins=ONE_GPU, rate=1)
        return wish.plan().prediction.capacity

    usual = capacity()
    assert capacity("--kv-cache-memory-bytes", "3G") < usual / 2
    assert capacity("--gpu-memory-utilization", "0.9") == usual
