"""docs/shapes.md is what its command writes, and the tables say what the prose around them says."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import shapes, shapes_page
from bench.shapes import APPLICATIONS, FABRICS, MODELS
from weft.catalog import load
from weft.domain.reasons import Reason
from weft.domain.shape import Limit

if TYPE_CHECKING:
    from bench.shape_cases import Application, Outcome, Pool, Rules
    from weft.domain.shape import Shape

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def applications() -> tuple[Application, ...]:
    return shapes.applications()


@pytest.fixture(scope="module")
def rules() -> Rules:
    return shapes.rules()


def shape(outcome: Outcome) -> Shape:
    """Of a case with one pool."""
    (pool,) = outcome.pools
    assert pool.plan is not None, pool.why.message
    return pool.plan.shape


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    """After a change of the model or of an example: `python -m bench.shapes`, and commit the page."""
    shapes.main(["--page", str(tmp_path / "shapes.md")])
    assert shapes.PAGE.read_bytes() == (tmp_path / "shapes.md").read_bytes()


def test_every_figure_comes_from_the_run() -> None:
    assert [] == re.findall(r"[0-9]+", re.sub(r"[{][a-z]+[}]", "", shapes_page._TEXT))


def test_every_class_is_an_example_that_says_all_it_expects(applications: tuple[Application, ...]) -> None:
    """Rate, both lengths with their long ends, and targets for both latencies."""
    assert len(APPLICATIONS) == len(applications)
    for application in applications:
        workload, slo = (application.resource["spec"][field] for field in ("workload", "slo"))
        assert {"requestsPerSecond", "inputTokens", "outputTokens"} <= set(workload)
        assert all(workload[tokens]["p95"] > workload[tokens]["mean"] for tokens in ("inputTokens", "outputTokens"))
        assert {"ttft", "tpot"} == set(slo)


def test_every_class_meets_its_targets_on_nearly_every_fabric(applications: tuple[Application, ...]) -> None:
    for application in applications:
        met = [all(pool.why.reason is Reason.ShapeChosen for pool in one.pools) for one in application.outcomes]
        assert met.count(True) >= len(FABRICS) - 1, application.title


def test_what_is_planned_is_there(applications: tuple[Application, ...], rules: Rules) -> None:
    """No row takes more GPUs than its fabric has."""
    in_tables = [outcome for application in applications for outcome in application.outcomes]
    for outcome in (*in_tables, *rules.replicas, *rules.sizes, *rules.experts, *rules.lengths):
        assert 0 <= sum(pool.gpus for pool in outcome.pools) <= outcome.case.fabric.gpus, outcome.case.words


def test_more_traffic_for_a_small_model_means_more_replicas_of_one_gpu(rules: Rules) -> None:
    counts = [outcome.pools[0].replicas for outcome in rules.replicas]
    assert [1] * len(counts) == [shape(outcome).gpus for outcome in rules.replicas]
    assert all(few < many for few, many in itertools.pairwise(counts))


def test_larger_models_take_larger_groups_and_stages_only_beyond_a_domain(rules: Rules) -> None:
    for on_fabric in (rules.sizes[: len(MODELS)], rules.sizes[len(MODELS) :]):
        dense = [shape(outcome) for outcome in on_fabric[:-1]]
        assert sorted(each.gpus for each in dense) == [each.gpus for each in dense]
        for each in map(shape, on_fabric):
            domain = load().accelerator(each.accelerator).domain_gpus
            assert (each.pipeline_parallel > 1) is (each.gpus > domain)
    assert any(each.pipeline_parallel > 1 for each in map(shape, rules.sizes))
    assert any(each.pods > 1 and each.pipeline_parallel == 1 for each in map(shape, rules.sizes))


def test_experts_outgrow_a_board_in_a_rack_and_take_fewer_gpus_there(rules: Rules) -> None:
    half = len(rules.experts) // 2
    boards, racks = rules.experts[:half], rules.experts[half:]
    assert max(shape(each).expert_parallel for each in racks) > load().accelerator("H200").domain_gpus
    assert shape(racks[-1]).expert_parallel > shape(racks[0]).expert_parallel
    assert racks[-1].pools[0].cost < boards[-1].pools[0].cost


def test_the_ratio_flips_as_prompts_shorten_and_answers_lengthen(rules: Rules) -> None:
    ratios = [prefill.gpus / decode.gpus for prefill, decode in (outcome.pools for outcome in rules.lengths)]
    assert sorted(ratios, reverse=True) == ratios
    assert ratios[0] > 1 > ratios[-1]


def test_prefill_is_bound_by_compute_and_decode_by_memory(rules: Rules) -> None:
    for prefill, decode in (outcome.pools for outcome in rules.lengths):
        assert Limit.Compute is limit(prefill)
        assert limit(decode) in {Limit.MemoryBandwidth, Limit.KVMemory}


def limit(pool: Pool) -> Limit:
    assert pool.plan is not None
    return pool.plan.prediction.limit


def test_the_splits_among_the_examples_are_the_two_ends(applications: tuple[Application, ...]) -> None:
    found = {one.title: one.outcomes for one in applications}
    for outcome in found["Summaries of long documents"]:
        prefill, decode = outcome.pools
        assert prefill.gpus >= decode.gpus
    for outcome in found["Deep research"]:
        prefill, decode = outcome.pools
        assert prefill.plan is None or prefill.gpus < decode.gpus
