"""EPLB, overlapped batches, structured outputs and scheduling: options that a release has, in shapes that suit them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import DEEPSEEK, RELEASES, plan, shape, spec
from tests.shaping.cases import DEEPSEEK as DEEPSEEK_NAME
from tests.shaping.cases import H200, Wish
from weft.catalog.option_rules import option_rules
from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, ModelSpec, Pairs, ShapePins
from weft.engines import LaunchRequest, adapter_for
from weft.engines.options.rules import options_shape_conflict, value_of

BACKEND = "--structured-outputs-config.backend"
OVERLAPS = ("--enable-dbo", "--all2all-backend", "deepep_low_latency")
VLLM, SGLANG = EngineName.VLLM, EngineName.SGLang


def experts(engine: EngineName = VLLM, accelerator: str = "H200") -> Shape:
    """Eight ranks whose experts are spread."""
    return shape(1, accelerator, Precision.FP8, engine, data_parallel=8, expert_parallel=8)


def group(engine: EngineName = VLLM) -> Shape:
    """Eight GPUs that cut everything."""
    return shape(8, "H200", Precision.FP8, engine)


def ranks(engine: EngineName = VLLM) -> Shape:
    """Two ranks of four GPUs that cut experts between all."""
    return shape(4, "H200", Precision.FP8, engine, data_parallel=2)


def launch(
    *args: str,
    version: str = "0.32.0",
    chosen: Shape | None = None,
    env: Pairs = (),
    image: str | None = None,
) -> str:
    at = chosen or experts()
    wanted = spec(model=ModelSpec(DEEPSEEK), engine=EngineSpec(at.engine, args=args, env=env, image=image))
    planned = plan(at, replace(RELEASES[at.engine], version=version))
    return " ".join(adapter_for(at.engine).launch(LaunchRequest(wanted, planned)).command)


@pytest.mark.parametrize(
    ("args", "version", "chosen"),
    [
        (("--scheduling-policy", "priority"), "0.10.0", group()),
        ((BACKEND, "lm-format-enforcer"), "0.33.0", group()),
        (('--structured-outputs-config={"backend":"guidance"}',), "0.11.0", group()),
        (("--guided-decoding-backend", "outlines"), "0.10.1", group()),
        (("--enable-eplb",), "0.10.0", experts()),
        (("--enable-eplb", "--eplb-config.num_redundant_experts", "32"), "0.32.0", experts()),
        (("--no-enable-eplb", "--eplb-config.num_redundant_experts=0"), "0.32.0", group()),
        (OVERLAPS, "0.11.1", experts()),
        (("--enable-dbo", "--all2all-backend=nixl_ep"), "0.24.0", experts()),
        (("--schedule-policy", "hrrn"), "0.5.20", group(SGLANG)),
        (("--grammar-backend", "llguidance"), "0.5.3.post3", group(SGLANG)),
        (("--enable-eplb", "--ep-num-redundant-experts", "16"), "0.5.23", experts(SGLANG)),
        (("--enable-eplb", "--moe-a2a-backend", "deepep"), "0.5.23", experts(SGLANG)),
        (("--moe-a2a-backend", "none"), "0.5.23", group(SGLANG)),
        (("--moe-a2a-backend", "mooncake"), "0.5.23", shape(8, "H200", Precision.FP8, SGLANG, expert_parallel=8)),
        (("--enable-two-batch-overlap",), "0.5.23", experts(SGLANG)),
        (("--enable-two-batch-overlap", "--moe-a2a-backend", "deepep"), "0.5.8", experts(SGLANG)),
    ],
)
def test_what_the_release_can_in_such_a_shape_is_passed_on(args: tuple[str, ...], version: str, chosen: Shape) -> None:
    assert " ".join(args) in launch(*args, version=version, chosen=chosen)


@pytest.mark.parametrize(
    ("args", "version", "chosen", "said"),
    [
        (("--scheduling-policy", "lpm"), "0.32.0", group(), "lpm is not supported on VLLM 0.32.0: use fcfs or prio"),
        ((BACKEND, "llguidance"), "0.32.0", group(), "use auto, xgrammar, guidance, outlines or lm-format-enforcer"),
        (('--structured-outputs-config={"backend":"x"}',), "0.32.0", group(), "backend x is not supported"),
        (("--guided-decoding-backend", "lm-format-enforcer"), "0.10.1", group(), "use auto, xgrammar, guidance or out"),
        (("--enable-dbo",), "0.10.2", experts(), "--enable-dbo is not supported on VLLM 0.10.2: it is new in 0.11.0"),
        (("--schedule-policy", "hrrn"), "0.5.19", group(SGLANG), "or routing-key"),
        (("--schedule-policy", "shortest-prefill-first"), "0.5.20", group(SGLANG), "or hrrn"),
        (("--grammar-backend", "guidance"), "0.5.23", group(SGLANG), "use xgrammar, outlines, llguidance or none"),
    ],
)
def test_what_the_release_lacks_is_refused_with_what_it_has(
    args: tuple[str, ...], version: str, chosen: Shape, said: str
) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        launch(*args, version=version, chosen=chosen)
    assert refused.value.reason is Reason.FeatureUnsupported


@pytest.mark.parametrize(
    ("args", "version", "chosen", "said"),
    [
        (
            ("--enable-eplb",),
            "0.32.0",
            group(),
            "needs expert parallelism .*; this replica is H200 FP8 TP8",
        ),
        (("--eplb-config.num_redundant_experts=8",), "0.32.0", experts(), "needs --enable-eplb beside it"),
        (("--num-redundant-experts", "8"), "0.11.0", experts(), "needs --enable-eplb beside it"),
        (OVERLAPS, "0.32.0", shape(8, "H200", Precision.FP8, expert_parallel=8), "needs data-parallel ranks"),
        (("--enable-dbo",), "0.32.0", experts(), "needs --all2all-backend beside it: use deepep_low_latency or"),
        (("--enable-dbo",), "0.11.0", experts(), "or VLLM_ALL2ALL_BACKEND in spec.engine.env"),
        (("--enable-dbo", "--all2all-backend", "nixl_ep"), "0.23.0", experts(), "needs --all2all-backend"),
        (("--enable-eplb",), "0.5.23", group(SGLANG), "needs expert parallelism"),
        (("--enable-two-batch-overlap",), "0.5.8", experts(SGLANG), "needs --moe-a2a-backend beside it"),
        (("--enable-two-batch-overlap",), "0.5.15", group(SGLANG), "needs data-parallel ranks"),
        (("--moe-a2a-backend=deepep",), "0.5.3.post3", group(SGLANG), "deepep spreads experts over all GPUs of a st"),
        (("--moe-a2a-backend", "mori"), "0.5.23", ranks(SGLANG), "use spec.shape.expertParallel 8, or remove it; this"),
        (("--moe_a2a=nixl",), "0.5.23", group(SGLANG), "--moe-a2a-backend nixl spreads experts"),
        (("--enable-deepep-waterfill",), "0.5.15", group(SGLANG), "--enable-deepep-waterfill spreads experts"),
        (("--enable-waterfill",), "0.5.23", group(SGLANG), "--enable-waterfill spreads experts"),
    ],
)
def test_what_cannot_work_in_such_a_shape_or_alone_is_refused(
    args: tuple[str, ...], version: str, chosen: Shape, said: str
) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        launch(*args, version=version, chosen=chosen)
    assert refused.value.reason is Reason.ArgumentConflict


def test_a_variable_says_the_same_as_long_as_the_release_reads_it() -> None:
    said = (("VLLM_ALL2ALL_BACKEND", "deepep_low_latency"),)
    assert "--enable-dbo" in launch("--enable-dbo", version="0.11.2", env=said)
    with pytest.raises(Invalid, match="needs --all2all-backend beside it"):
        launch("--enable-dbo", version="0.16.0", env=said)


def test_other_accelerators_overlap_by_other_means() -> None:
    assert "--enable-dbo" in launch("--enable-dbo", chosen=experts(accelerator="MI300X"))


def test_an_image_of_ones_own_may_have_more_options_and_values_and_no_other_shape() -> None:
    own = "registry.example/vllm:mine"
    assert "whim" in launch("--scheduling-policy", "whim", image=own)
    with pytest.raises(Invalid, match="needs expert parallelism"):
        launch("--enable-eplb", chosen=group(), image=own)


def test_settings_that_are_no_json_are_left_to_the_engine() -> None:
    assert value_of(("--structured-outputs-config={",), BACKEND) == ""
    assert value_of(("--structured-outputs-config=[]",), BACKEND) == ""
    assert value_of((f"--structured-outputs-config={'[' * 4000}",), BACKEND) == ""
    assert value_of(('--eplb-config={"num_redundant_experts":8}',), "--eplb-config.num_redundant_experts") == "8"


def planned(*args: str, pins: ShapePins | None = None, engine: EngineName = VLLM) -> Shape:
    """The shape that is chosen for a mixture of 256 experts on eight GPUs."""
    wish = Wish(DEEPSEEK_NAME, (H200,), engine=EngineSpec(engine, args=args), pins=pins or ShapePins())
    return wish.plan().shape


def test_a_shape_is_chosen_in_which_the_arguments_work() -> None:
    assert planned(*OVERLAPS).data_parallel > 1
    assert planned("--enable-eplb").expert_parallel > 1
    pinned = ShapePins(tensor_parallel=8, data_parallel=1, expert_parallel=1)
    assert planned(pins=pinned).expert_parallel == 1
    with pytest.raises(Invalid, match=r"engine\.args --enable-eplb needs expert parallelism") as refused:
        planned("--enable-eplb", pins=pinned)
    assert refused.value.reason is Reason.ArgumentConflict


def test_a_shape_is_chosen_whose_experts_are_spread_as_the_backend_spreads_them() -> None:
    ranks_open = ShapePins(tensor_parallel=8, data_parallel=1)
    assert planned("--moe-a2a-backend", "deepep", pins=ranks_open, engine=SGLANG).expert_parallel == 8
    pinned = replace(ranks_open, expert_parallel=1)
    assert planned(pins=pinned, engine=SGLANG).expert_parallel == 1
    with pytest.raises(Invalid, match=r"engine\.args --moe-a2a-backend deepep spreads experts") as refused:
        planned("--moe-a2a-backend", "deepep", pins=pinned, engine=SGLANG)
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize(
    ("args", "engine", "version"),
    [
        (("--enable-eplb", "--eplb-config.num_redundant_experts", "30"), VLLM, "0.32.0"),
        (("--enable-eplb", '--eplb-config={"num_redundant_experts": 30}'), VLLM, "0.32.0"),
        (("--enable-eplb", "--num-redundant-experts=30"), VLLM, "0.10.0"),
        (("--enable-eplb", "--ep-num-redundant-experts", "30"), SGLANG, "0.5.23"),
    ],
)
def test_redundant_experts_have_to_spread_evenly(args: tuple[str, ...], engine: EngineName, version: str) -> None:
    uneven = options_shape_conflict(EngineSpec(engine, args=args), experts(engine), version, 256)
    assert uneven is not None
    assert "256 experts and these do not spread over EP 8" in uneven
    even = tuple(each.replace("30", "32") for each in args)
    assert options_shape_conflict(EngineSpec(engine, args=even), experts(engine), version, 256) is None


def test_a_shape_is_chosen_over_which_they_spread_if_there_is_one() -> None:
    assert planned("--enable-eplb", "--eplb-config.num_redundant_experts", "32").expert_parallel == 8
    with pytest.raises(Invalid, match="256 experts and these do not spread over EP 8") as refused:
        planned("--enable-eplb", "--eplb-config.num_redundant_experts", "30")
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize(("engine", "file"), [(VLLM, "vllm_options.yaml"), (SGLANG, "sglang_options.yaml")])
def test_each_rule_is_of_an_option_that_its_releases_have(engine: EngineName, file: str) -> None:
    """From the first of them on that has it, for those whose rules begin before."""
    options = engine_options(file)
    for release in options.releases:
        version = ".".join(map(str, release))
        later = options.by_release[options.releases.index(release) :]
        for rule in option_rules(engine, version):
            names = [each.partition(".")[0] for each in (rule.option, rule.beside, rule.unless) if each]
            assert all(any(name in taken for taken in later) for name in names), (version, rule)
