"""EPLB and structured outputs of TensorRT-LLM: `--set` in `engine.args`, written into the file of settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tests.render.pools import plan, shape, spec
from tests.render.tensorrt_llm_shapes import planned
from tests.shaping.cases import DEEPSEEK, GB200, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Plan, Shape
from weft.domain.spec import EngineSpec, PoolSpec
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for
from weft.engines.options.rules import options_shape_conflict

ENGINE = adapter_for(EngineName.TensorRTLLM)


def launched(wanted: PoolSpec, chosen: Plan) -> ContainerLaunch:
    return ENGINE.launch(LaunchRequest(wanted, chosen))


def set_to(*settings: str) -> PoolSpec:
    return spec(engine=EngineSpec(args=tuple(word for each in settings for word in ("--set", each))))


EPLB = shape(1, precision=Precision.FP8, engine=EngineName.TensorRTLLM, data_parallel=8, expert_parallel=8)
SLOTS, UPDATES = "moe_config.load_balancer.num_slots", "moe_config.load_balancer.layer_updates_per_iter"


@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc12"])
def test_settings_of_the_user_are_in_the_file_and_not_on_the_command_line(version: str) -> None:
    """Servers of 1.2 have no `--set`, and the file wins over what later ones are told."""
    chosen = replace(planned(), engine=replace(planned().engine, version=version))
    found = launched(set_to("guided_decoding_backend=xgrammar"), chosen)
    assert not any("--set" in word for word in found.command)
    assert yaml.safe_load(found.files[0].text)["guided_decoding_backend"] == "xgrammar"
    assert "guided_decoding_backend" not in yaml.safe_load(launched(spec(), chosen).files[0].text)


def test_experts_are_balanced_where_they_are_spread() -> None:
    wanted = set_to(f"{SLOTS}=288", f"{UPDATES}=2")
    text = launched(wanted, plan(EPLB)).files[0].text
    assert yaml.safe_load(text)["moe_config"] == {"load_balancer": {"num_slots": 288, "layer_updates_per_iter": 2}}
    assert ENGINE.unknown_arguments(wanted.engine.args, "1.2.1") == ()


@pytest.mark.parametrize(
    ("settings", "chosen", "words"),
    [
        (("guided_decoding_backend=outlines",), shape(8), "use xgrammar or llguidance"),
        (
            ("kv_cache_config.free_gpu_memory_fraction=0.5",),
            shape(8),
            "fields of the file that Weft writes; allowed: gui",
        ),
        ((f"{SLOTS}=many",), EPLB, "needs a whole number, not 'many'"),
        (("guided_decoding_backend",), shape(8), "needs a value"),
        ((f"{SLOTS}=288",), shape(8), f"--set {SLOTS} needs expert parallelism"),
        ((f"{SLOTS}=290",), EPLB, "it has to be a multiple of EP 8"),
        ((f"{UPDATES}=2",), EPLB, f"--set {UPDATES} needs --set {SLOTS} beside it"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings: tuple[str, ...], chosen: Shape, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        launched(set_to(*settings), plan(replace(chosen, engine=EngineName.TensorRTLLM)))
    assert words in refused.value.message


def test_fewer_slots_than_experts_are_refused_where_the_model_is_known() -> None:
    engine = set_to(f"{SLOTS}=248").engine
    why = options_shape_conflict(engine, EPLB, "1.2.1", 256)
    assert why == f"--set {SLOTS} 248: it has to be a multiple of EP 8 and at least 256, the experts"
    assert options_shape_conflict(set_to(f"{SLOTS}=256").engine, EPLB, "1.2.1", 256) is None


def test_a_shape_is_chosen_in_which_experts_can_be_balanced() -> None:
    def chosen(*args: str) -> int:
        wish = Wish(DEEPSEEK, (GB200,), engine=EngineSpec(EngineName.TensorRTLLM, args=args))
        return wish.plan().shape.expert_parallel

    assert chosen("--set", f"{SLOTS}=288") > 1
    with pytest.raises(Invalid, match="at least 256, the experts"):
        chosen("--set", f"{SLOTS}=128")
