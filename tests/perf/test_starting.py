"""What a start should take before one was measured: by where the weights are, and never less for more of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.render.pools import plan, shape
from weft.catalog import load
from weft.catalog.starting import CACHE, SourceSpeed
from weft.domain.shape import EngineName
from weft.domain.spec import ModelSource, SourceKind
from weft.perf import estimated_start
from weft.perf.starting import checkpoint_bytes, weights_seconds

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.start_up import StartUp

KNOWN = load().starting
SMALL, LARGE, HUGE = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", "deepseek-ai/DeepSeek-R1"
KEPT = ModelSource(SourceKind.HuggingFace, "", cache="downloads")
CLAIM, VOLUME, STORE = (
    ModelSource(kind, where) for kind, where in zip(list(SourceKind)[1:], ("c", "i", "s3://b"), strict=True)
)
SPEEDS = st.sampled_from(list(KNOWN.sources.values()))
AMOUNTS = st.floats(1e6, 1e13)


def architecture(name: str) -> Architecture:
    found = load().architecture(name)
    assert found is not None
    return found


def start(name: str, source: ModelSource | None = None, gpus: int = 8, pods: int = 1) -> StartUp:
    model = architecture(name)
    shaped = shape(gpus // pods, pipeline_parallel=pods, gpus_per_pod=gpus // pods)
    return estimated_start(model, plan(shaped, weight_bytes=checkpoint_bytes(model)), source, KNOWN)


def test_sources_in_the_order_of_what_they_cost() -> None:
    """One that streams, one that is read, a download, and an image, which one thread unpacks."""
    seconds = [start(LARGE, source).weights for source in (STORE, CLAIM, None, VOLUME)]
    assert seconds == sorted(set(seconds))


def test_a_claim_that_keeps_downloads_costs_what_one_with_weights_does() -> None:
    assert start(LARGE, KEPT) == start(LARGE, CLAIM)
    assert start(LARGE, KEPT).weights < start(LARGE).weights / 2


def test_only_the_weights_depend_on_the_source() -> None:
    starts = [start(LARGE, source) for source in (None, KEPT, CLAIM, VOLUME, STORE)]
    assert len({(each.image, each.engine) for each in starts}) == 1


@pytest.mark.parametrize("source", [None, KEPT, VOLUME, STORE])
def test_each_node_gets_all_weights_however_many_pods_there_are(source: ModelSource | None) -> None:
    whole, halves = start(LARGE, source), start(LARGE, source, gpus=16, pods=2)
    assert halves.weights >= 0.9 * whole.weights


def test_what_is_stored_counts_and_not_what_the_engine_makes_of_it() -> None:
    """DeepSeek-R1 is published in FP8, most of it one byte a parameter."""
    assert checkpoint_bytes(architecture(HUGE)) == pytest.approx(680e9, rel=0.03)
    assert checkpoint_bytes(architecture(SMALL)) == pytest.approx(16.06e9, rel=0.01)


def test_published_starts_are_met_within_a_third() -> None:
    """As `starting.yaml` names them: a download of 8B, what then goes to one GPU, 70B in FP8 from memory to eight."""
    assert checkpoint_bytes(architecture(SMALL)) / KNOWN.sources["HuggingFace"].fetched == pytest.approx(61, rel=1 / 3)
    assert start(SMALL, gpus=1).weights - 61 == pytest.approx(18, rel=1 / 3)
    assert 70.6e9 / 8 / KNOWN.loader == pytest.approx(10, rel=1 / 3)
    assert start(LARGE).engine == pytest.approx(145, rel=1 / 3)
    assert 64 < start(SMALL).engine < 200


def test_there_are_constants_for_every_source_and_engine() -> None:
    assert set(KNOWN.sources) == {each.value for each in SourceKind} | {CACHE}
    assert set(KNOWN.engines) == set(EngineName)
    for engine in EngineName:
        shaped = replace(plan(), shape=shape(engine=engine))
        assert estimated_start(architecture(SMALL), shaped, None, KNOWN).estimated > 0


@given(SPEEDS, AMOUNTS, AMOUNTS, st.floats(1.0, 100.0), st.floats(1.0, 100.0))
def test_more_to_bring_never_takes_less(speed: SourceSpeed, node: float, gpu: float, more: float, again: float) -> None:
    """By more weights on the node, by more of them on one GPU, and so by fewer GPUs."""
    seconds = weights_seconds(node, gpu, speed, KNOWN.loader)
    assert 0 < seconds <= weights_seconds(node * more, gpu * again, speed, KNOWN.loader)
