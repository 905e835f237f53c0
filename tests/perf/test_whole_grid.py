"""Every model of the catalog on every kind of accelerator: an answer within physical bounds, or a refusal by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.perf.replicas import CATALOG
from weft.catalog.parameters import embedding_parameters, expert_parameters, parameter_count
from weft.domain.errors import WeftError
from weft.domain.reasons import Reason
from weft.perf.benchmarks.expected import Estimate, Expected, expected
from weft.perf.benchmarks.measured import Measurement, measurement
from weft.perf.memory import layer_weights

if TYPE_CHECKING:
    from weft.domain.model import Architecture

# One of each generation, small and large, with links of each kind.
ACCELERATORS = ("A100", "A30", "L4", "H100", "H20", "B200", "GB200", "RTX-PRO-6000", "MI300X", "MI355X")
REFUSALS = {Reason.PrecisionUnsupported, Reason.OutOfMemory, Reason.SpecInvalid, Reason.ContextExceeded}
SIZES, CROWD = (1, 2, 8), 4096


def asked(model: str, gpu: str, tensor: int, users: int, note: str = "") -> tuple[Measurement, Expected] | Reason:
    row = {"model": model, "gpu": gpu, "engine": "vllm", "tp": str(tensor), "isl": "500", "osl": "100", "note": note}
    try:
        at = measurement(row | {"concurrency": str(users)}, CATALOG)
        return at, expected(at, CATALOG)
    except WeftError as error:
        return error.reason


def used_by_a_token(architecture: Architecture) -> float:
    """Parameters that a token is multiplied with, without those of embeddings and head."""
    experts = architecture.experts
    idle = experts.count - experts.per_token if experts else 0
    unused = architecture.expert_layers * idle * expert_parameters(architecture.hidden, experts) if experts else 0
    return float(parameter_count(architecture) - embedding_parameters(architecture) - unused)


def in_order(estimate: Estimate | None) -> bool:
    return estimate is None or 0.0 < estimate.low <= estimate.value <= estimate.high < float("inf")


def assert_possible(at: Measurement, answer: Expected) -> None:
    """No token before the weights it needs are read, and no more FLOP in a second than the data sheet has."""
    replica, experts = at.replica, at.replica.architecture.experts
    weights = layer_weights(replica)
    routed = weights.experts * experts.per_token / experts.count if experts else 0.0
    assert answer.tpot is not None
    assert answer.output_rate is not None
    assert answer.tpot.value > (weights.linear + routed) / replica.accelerator.memory_bandwidth
    fastest = max(flops for _, flops in replica.accelerator.flops) * replica.shape.gpus
    tokens = answer.output_rate.value * (1.0 + at.input_tokens / at.output_tokens)
    assert tokens * 2.0 * used_by_a_token(replica.architecture) < fastest


@pytest.mark.parametrize("gpu", ACCELERATORS)
def test_an_answer_is_possible_and_what_fits_on_fewer_gpus_fits_on_more(gpu: str) -> None:
    answered = 0
    for model in CATALOG.models:
        fits = False
        for tensor in SIZES:
            for users in (1, CROWD):
                found = asked(model.model_id, gpu, tensor, users)
                if isinstance(found, Reason):
                    assert found in REFUSALS, (model.model_id, found)
                    assert not (fits and found is Reason.OutOfMemory), model.model_id
                    continue
                fits, answered = True, answered + 1
                assert all(in_order(each) for each in (found[1].ttft, found[1].tpot, found[1].output_rate))
                assert_possible(*found)
    assert answered > 100


def test_halves_alone_are_as_possible_as_both_together() -> None:
    for model in CATALOG.models:
        for note in ("decode-only", "prefill-only"):
            found = asked(model.model_id, "H200", 8, CROWD, note)
            if isinstance(found, Reason):
                assert found in REFUSALS
                continue
            at, answer = found
            assert answer.output_rate is not None
            each = at.input_tokens if note == "prefill-only" else 1.0
            flops = answer.output_rate.value * each * 2.0 * used_by_a_token(at.replica.architecture)
            assert flops < 8 * max(peak for _, peak in at.replica.accelerator.flops)
