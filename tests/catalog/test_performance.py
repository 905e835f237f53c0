"""How coefficients of an engine are put together, and the bounds that physics sets them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import architecture
from weft.catalog import load
from weft.catalog.efficiency import Coefficient, Efficiency, properties
from weft.catalog.uncertainty import Faster, Newest, Spread, Uncertainty
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape

if TYPE_CHECKING:
    from weft.catalog.performance import EnginePerformance
    from weft.domain.hardware import Accelerator

CATALOG = load()
SERVED = [
    (accelerator, engine, precision)
    for accelerator in CATALOG.accelerators
    for engine in EngineName
    for precision in CATALOG.precisions(accelerator, engine)
]
FRACTIONS = (
    "weights",
    "kv",
    "matmul",
    "prefill",
    "prefill_experts",
    "attention",
    "collective_bandwidth",
    "exchange_bandwidth",
    "memory_fraction",
)
FITTED_FRACTIONS = FRACTIONS[:5]
WAITS = ("at_once", "equal_at_once")
AT_LEAST_ZERO = (*(name for name in Efficiency.__slots__ if name.endswith(("_seconds", "_bytes"))), *WAITS)
VLLM = CATALOG.performance[EngineName.VLLM]
HOPPER_FP8 = properties("Hopper", "VLLM", "FP8", early=False)


def engine(early_before: str = "0.12", early_until: str = "2025-12") -> EnginePerformance:
    return replace(VLLM, early_before=early_before, early_until=early_until, assumed={"x86": {"layer_us": 4000}})


def test_a_coefficient_is_its_base_times_the_factor_of_every_property() -> None:
    factors = {"generation": {"Hopper": 0.5, "Ada": 7.0}, "engine and precision": {"VLLM FP8": 3.0}}
    assert Coefficient(2.0, factors).at(HOPPER_FP8) == 2.0 * 0.5 * 3.0
    assert Coefficient(2.0, {}).at(HOPPER_FP8) == 2.0


def test_what_nobody_measured_has_factor_one() -> None:
    factors = {"generation": {"Ada": 7.0}, "release": {"VLLM early": 5.0}, "engine": {"VLLM": 3.0}}
    assert Coefficient(2.0, factors).at(HOPPER_FP8) == 6.0


def test_properties_tell_generations_engines_precisions_and_releases_apart() -> None:
    assert HOPPER_FP8 == {
        "generation": "Hopper",
        "engine": "VLLM",
        "generation and precision": "Hopper FP8",
        "engine and precision": "VLLM FP8",
        "generation and engine": "Hopper VLLM",
        "release": "VLLM present",
    }
    assert properties("Hopper", "VLLM", "FP8", early=True)["release"] == "VLLM early"


def test_factors_are_only_of_properties_and_of_things_that_there_are() -> None:
    """A misspelt name in the file would be a factor that nothing ever takes."""
    known = [
        properties(accelerator.generation, engine_name.value, precision.value, early=early)
        for accelerator, engine_name, precision in SERVED
        for early in (False, True)
    ]
    for coefficient in CATALOG.coefficients.values():
        for name, factors in coefficient.factors.items():
            assert set(factors) <= {each[name] for each in known}


@pytest.mark.parametrize(
    ("limit", "release", "early"),
    [
        ("0.12", "0.11.2", True),
        ("0.12", "v0.9", True),
        ("0.12", "0.12", False),
        ("0.12", "0.12.0rc1", False),
        ("0.12", "1.0.0", False),
        ("0.5.6", "0.5.5.post2", True),
        ("0.5.6", "0.4.10", True),
        ("0.5.6", "0.5.6.post2", False),
        ("0.5.6", "0.5.10", False),
        ("1.1", "1.1.0rc2.post2", False),
        ("1.1", "1.0.9", True),
        ("0.12", "2025-11", True),
        ("0.12", "2025-12", True),
        ("0.12", "2026-01", False),
    ],
)
def test_a_release_is_early_by_its_version_or_by_the_month_of_the_measurement(
    limit: str, release: str, *, early: bool
) -> None:
    assert engine(limit).is_early(release) == early


@pytest.mark.parametrize(
    "release", [None, "", "main", "gpt-oss-dev", "0", ".1", "2025-1", "9" * 5000, "9" * 5000 + ".1"]
)
def test_a_release_that_cannot_be_read_is_the_present_one(release: str | None) -> None:
    assert not engine().is_early(release)


def test_constants_and_what_is_assumed_of_a_generation_come_before_what_is_fitted() -> None:
    fitted = {**CATALOG.coefficients, "layer_us": Coefficient(50.0, {}), "attention": Coefficient(0.9, {})}
    hopper, x86 = (
        engine().efficiency(fitted, generation, EngineName.VLLM, Precision.BF16, None)
        for generation in ("Hopper", "x86")
    )
    assert hopper.layer_seconds == pytest.approx(50e-6)
    assert x86.layer_seconds == pytest.approx(4000e-6)
    assert hopper.attention == x86.attention == VLLM.constants["attention"]


def test_an_early_release_takes_factors_of_its_own() -> None:
    slow = {**CATALOG.coefficients, "request_ms": Coefficient(10.0, {"release": {"VLLM early": 3.0}})}
    early, present = (
        engine().efficiency(slow, "Hopper", EngineName.VLLM, Precision.FP8, release) for release in ("0.9.1", None)
    )
    assert early.request_seconds == pytest.approx(30e-3)
    assert present.request_seconds == pytest.approx(10e-3)


@pytest.mark.parametrize(
    ("accelerator", "engine_name", "release", "tokens"),
    [
        ("B200", EngineName.VLLM, None, 1024),
        ("GB300", EngineName.VLLM, "0.28.0", 1024),
        ("B200", EngineName.VLLM, "0.27.1", 512),
        ("B200", EngineName.VLLM, "0.11.0", 512),
        ("B200", EngineName.VLLM, "2026-09", 1024),
        ("B200", EngineName.VLLM, "2026-08", 512),
        ("B200", EngineName.VLLM, "nightly", 1024),
        ("H200", EngineName.VLLM, "0.28.0", 512),
        ("RTX-PRO-6000", EngineName.VLLM, None, 512),
        ("MI355X", EngineName.VLLM, None, 512),
        ("B200", EngineName.SGLang, None, 0),
    ],
)
def test_vllm_captures_larger_graphs_on_data_centre_blackwell_from_a_release_on(
    accelerator: str, engine_name: EngineName, release: str | None, tokens: float
) -> None:
    device = CATALOG.accelerator(accelerator)
    assert tokens == CATALOG.efficiency(device, engine_name, Precision.FP8, release).graph_tokens


@pytest.mark.parametrize(
    ("accelerator", "engine_name", "model", "tokens"),
    [
        ("H200", EngineName.VLLM, "gpt-oss-120b", 1024),
        ("MI355X", EngineName.VLLM, "gpt-oss-20b", 1024),
        ("H200", EngineName.VLLM, "Llama-3.1-8B-Instruct", 512),
        ("H200", EngineName.SGLang, "gpt-oss-120b", 0),
    ],
)
def test_vllm_captures_larger_graphs_for_gpt_oss_on_every_gpu(
    accelerator: str, engine_name: EngineName, model: str, tokens: float
) -> None:
    architecture = CATALOG.architecture(model)
    assert architecture is not None
    usual = CATALOG.efficiency(CATALOG.accelerator(accelerator), engine_name, Precision.BF16)
    found = CATALOG.efficiency_for(architecture, engine_name, usual)
    assert tokens == found.graph_tokens
    assert found is CATALOG.efficiency_for(architecture, engine_name, usual)
    assert replace(found, graph_tokens=usual.graph_tokens, graph_sequences=usual.graph_sequences) == usual


def test_releases_with_other_graphs_are_alike_in_all_else() -> None:
    older, present = (
        CATALOG.efficiency(CATALOG.accelerator("B200"), EngineName.VLLM, Precision.FP8, each)
        for each in ("0.27.1", None)
    )
    assert replace(older, graph_tokens=1024) == present


VALUES = dict.fromkeys(CATALOG.coefficients, 1.0) | VLLM.constants


@given(st.floats(1e-6, 1e6), st.floats(1.0, 10.0))
def test_no_coefficient_makes_an_engine_faster_than_the_data_sheet(value: float, factor: float) -> None:
    found, more = (
        VLLM.resolved({**VALUES, **dict.fromkeys(FITTED_FRACTIONS, each)}) for each in (value, value * factor)
    )
    for name in FITTED_FRACTIONS:
        assert 0 < getattr(found, name) <= min(value, 1.0) * (1 + 1e-9)
        assert getattr(found, name) <= getattr(more, name) * (1 + 1e-9)


@given(st.floats(1e-6, 0.6))
def test_what_is_far_from_the_data_sheet_is_left_as_it_is(value: float) -> None:
    assert VLLM.resolved({**VALUES, "weights": value}).weights == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("accelerator", "engine_name", "precision"), SERVED, ids=lambda value: getattr(value, "name", "")
)
def test_every_combination_stays_within_physics(
    accelerator: Accelerator, engine_name: EngineName, precision: Precision
) -> None:
    for release in (None, "0.1"):
        found = CATALOG.efficiency(accelerator, engine_name, precision, release)
        assert [] == [name for name in FRACTIONS if not 0 < getattr(found, name) <= 1]
        assert [] == [name for name in AT_LEAST_ZERO if not getattr(found, name) >= 0]
        assert max(found.at_once, found.equal_at_once) <= 1
        assert min(found.batched_tokens, found.sequences) >= 1


def known_to(factor: float) -> Spread:
    return Spread(2 * factor, factor, 3 * factor, 1.1 * factor, 1.2 * factor, 1.3 * factor, 4 * factor, 1.4 * factor)


DENSE, MIXTURE = architecture("Llama-3.3-70B-Instruct"), architecture("gpt-oss-120b")
COMBINATION = ("Hopper", "VLLM", "FP8")
KNOWN = Uncertainty(
    seen={"dense": known_to(1.2), "experts": known_to(1.3), "VLLM dense": known_to(1.1)},
    unseen={"dense": known_to(1.5), "experts": known_to(1.6)},
    measured={COMBINATION: frozenset({DENSE.model_id})},
    faster=Faster(ttft=1.15, tpot=1.5, output_rate=3.5),
    newest={"VLLM": Newest("0.18.0", "2026-03", frozenset({"early-dev"})), "SGLang": Newest("0.5.9", "2026-03")},
)
KNOWN_RELEASE = "0.18.0"


def test_kernels_come_nearer_to_the_peak_of_a_part_with_slower_tensor_cores() -> None:
    """H20 has a quarter of H100's arithmetic in a multiprocessor: what takes as long beside it is a quarter as much."""
    whole, slow = (
        CATALOG.efficiency(CATALOG.accelerator(name), EngineName.SGLang, Precision.FP8) for name in ("H100", "H20")
    )
    for name in ("matmul", "prefill", "prefill_experts", "attention"):
        beside, of_slow = (1.0 / getattr(each, name) - 1.0 for each in (whole, slow))
        assert of_slow / beside == pytest.approx(0.253, abs=1e-3)
    assert (slow.weights, slow.kv, slow.layer_seconds) == (whole.weights, whole.kv, whole.layer_seconds)


@pytest.mark.parametrize(
    ("precision", "measured"),
    [(Precision.BF16, 0.937), (Precision.FP8, 0.93)],  # cuBLAS at 8192 cubed; DeepGEMM with 4,096 x 24,576 x 7,168
)
def test_matmuls_on_h20_come_as_near_to_its_peak_as_was_measured(precision: Precision, measured: float) -> None:
    found = CATALOG.efficiency(CATALOG.accelerator("H20"), EngineName.VLLM, precision).prefill
    assert 0.85 * measured < found < measured


def test_no_part_computes_faster_than_the_whole_one_of_its_generation() -> None:
    whole, slow = (CATALOG.accelerator(name) for name in ("H100", "H20"))
    reached = [
        dict(each.flops)[Precision.FP8] * CATALOG.efficiency(each, EngineName.VLLM, Precision.FP8).prefill_experts
        for each in (whole, slow)
    ]
    assert reached[1] < reached[0] / 2


def test_intervals_are_narrowest_for_an_architecture_that_was_measured_there() -> None:
    assert known_to(1.1) == KNOWN.spread(DENSE, COMBINATION, KNOWN_RELEASE)
    assert known_to(1.6) == KNOWN.spread(MIXTURE, COMBINATION, KNOWN_RELEASE)
    assert known_to(1.5) == KNOWN.when(DENSE, COMBINATION, seen=False)


def test_an_engine_of_which_too_little_is_known_has_the_intervals_of_all() -> None:
    assert known_to(1.2) == KNOWN.when(DENSE, ("Hopper", "SGLang", "FP8"), seen=True)
    assert known_to(1.3) == KNOWN.when(MIXTURE, COMBINATION, seen=True)


def test_intervals_are_wider_for_what_nobody_measured() -> None:
    far = KNOWN.spread(DENSE, ("Ada", "VLLM", "FP8"), KNOWN_RELEASE)
    assert (far.ttft, far.tpot, far.output_rate) == pytest.approx((3.0**1.5, 1.5**1.5, 4.5**1.5))
    below = (far.ttft_below, far.tpot_below, far.output_rate_below)
    assert below == pytest.approx((1.65**1.5, 1.8**1.5, 1.95**1.5))
    assert (far.crowded_ttft_below, far.crowded_ttft) == pytest.approx((2.1**1.5, 6.0**1.5))


def test_intervals_are_wider_for_measurements_of_another_kind_and_reach_no_further_for_newer_releases() -> None:
    known, newer = (KNOWN.spread(MIXTURE, COMBINATION, each, 1.1) for each in (KNOWN_RELEASE, "0.19.0"))
    assert (known.ttft, known.tpot, known.output_rate) == pytest.approx((3.2**1.1, 1.6**1.1, 4.8**1.1))
    assert newer == known
    narrow = KNOWN.spread(DENSE, COMBINATION, "0.19.0", 1.1)
    assert narrow.tpot_below == KNOWN.faster.tpot


@pytest.mark.parametrize("release", ["0.18.1", "0.26.0", "v0.32.0", "1.0", "2026-04", "nightly"])
def test_a_release_newer_than_any_row_may_be_faster_than_predicted_but_no_slower(release: str) -> None:
    """Only ends that are nearer than that move: of TTFT they are further here."""
    known = KNOWN.spread(DENSE, COMBINATION, KNOWN_RELEASE)
    newer = KNOWN.spread(DENSE, COMBINATION, release)
    assert replace(known, tpot_below=1.5, output_rate=3.5) == newer
    assert known.ttft_below > KNOWN.faster.ttft


@pytest.mark.parametrize("release", ["0.18.0", "v0.18.0.post1", "0.18", "0.9.2", "2026-03", "2025-11", "early-dev"])
def test_a_release_that_rows_reach_to_has_the_intervals_of_the_rows(release: str) -> None:
    assert known_to(1.1) == KNOWN.spread(DENSE, COMBINATION, release)


def test_each_engine_has_a_newest_release_of_its_own_and_any_is_newer_than_none() -> None:
    known = replace(KNOWN, faster=Faster(ttft=9.0, tpot=9.0, output_rate=9.0))
    releases = (("VLLM", "0.18.0"), ("SGLang", "0.5.9"), ("SGLang", "0.5.10"), ("TensorRTLLM", "0.1"))
    reach = [known.spread(DENSE, ("Hopper", engine, "FP8"), release).tpot_below for engine, release in releases]
    assert [False, False, True, True] == [each == 9.0 for each in reach]


def test_a_replica_whose_release_nobody_names_runs_the_default_one() -> None:
    place = (DENSE, Shape(EngineName.VLLM, "H100", Precision.FP8), CATALOG.accelerator("H100"))
    version = CATALOG.engine(EngineName.VLLM).version
    assert CATALOG.spread(*place, version) == CATALOG.spread(*place)
    assert CATALOG.spread(*place, "0.15.1").tpot_below < CATALOG.spread(*place).tpot_below


def test_every_spread_of_the_catalog_is_of_factors_above_one_and_every_model_has_one() -> None:
    known = CATALOG.uncertainty
    for spreads in (known.seen, known.unseen):
        assert {"dense", "experts"} <= set(spreads)
        for spread in spreads.values():
            assert [] == [name for name in Spread.__slots__ if not getattr(spread, name) > 1]


def test_the_catalog_names_measured_architectures_as_it_names_its_models() -> None:
    """A misspelt id would widen the intervals of what was measured."""
    models = {model.model_id for model in CATALOG.models}
    for ids in CATALOG.uncertainty.measured.values():
        assert ids
        assert ids <= models


def test_a_request_of_sglang_takes_its_server_as_long_on_every_generation() -> None:
    """The fit would give nearly 100 ms more to the faster one."""
    found = {
        CATALOG.efficiency(accelerator, EngineName.SGLang, precision).request_seconds
        for accelerator, engine, precision in SERVED
        if engine is EngineName.SGLang and accelerator.generation in {"Hopper", "Blackwell"}
    }
    assert 1 == len(found)
