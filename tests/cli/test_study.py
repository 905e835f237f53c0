"""What `weft plan` tells beside the plan: cost, saturation, other wishes, where time goes, the resource to apply."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.catalog import configs
from tests.cli.terminal import Json, pool, split, weft, written
from tests.yardstick import assert_each_quick
from weft.api.parsing import parse_pool, parse_split
from weft.catalog import load
from weft.cli.plan.study_page import PARTS
from weft.domain.texts.figures import digits
from weft.domain.texts.units import MIB
from weft.perf.steps import Seconds
from weft.shaping import ShapeRequest, Supply, choose, resolve_architecture

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--accelerator", "H200", "--precision", "FP8")
LOAD = ("--rate", "8", "--isl", "2000:6000", "--osl", "300:600", "--ttft", "p95=1s", "--tpot", "p95=40ms")


def study(*arguments: str) -> dict[str, Any]:
    ending = weft("plan", *arguments, "-o", "json")
    assert ending.code == 0, ending.err
    (planned,) = json.loads(ending.out)
    found: dict[str, Any] = planned["pools"][0]
    return found


def test_a_question_on_the_command_line_is_answered_like_a_file(tmp_path: Path) -> None:
    spec = {
        "model": {"id": "meta-llama/Llama-3.3-70B-Instruct", "precisions": ["FP8"]},
        "workload": {
            "requestsPerSecond": 8,
            "inputTokens": {"mean": 2000, "p95": 6000},
            "outputTokens": {"mean": 300, "p95": 600},
        },
        "slo": {"ttft": {"p95": "1s"}, "tpot": {"p95": "40ms"}},
        "placement": {"accelerators": ["H200"]},
        "scaling": {"maxReplicas": 1000},
    }
    body = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "metadata": {"name": "x"}, "spec": spec}
    asked, from_file = study(*LLAMA, *LOAD), study("-f", written(tmp_path / "pool.yaml", body))
    assert asked["plan"] == from_file["plan"]
    assert asked["study"] == from_file["study"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--isl", "many"), "--isl 'many' must be a mean, or MEAN:P95, in tokens"),
        (("--isl", "2000:1000"), "p95 must not be below mean"),
        (("--ttft", "500ms"), "--ttft '500ms' must be PERCENTILE=DURATION, such as p95=500ms"),
        (("--tpot", "p95=soon"), "spec.slo.tpot.p95"),
        (("--rate", "-1"), "spec.workload.requestsPerSecond"),
        (("--rate", "0"), "spec.workload.requestsPerSecond"),
        (("-f", "x.yaml"), "give either --file with resources, or --model"),
        (("--gpu-hour-price", "-1"), "--gpu-hour-price"),
    ],
)
def test_what_is_asked_wrongly_is_told_in_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    ending = weft("plan", *LLAMA, *arguments)
    assert sentence in ending.sentence
    assert (ending.code, ending.out) == (2, "")


@pytest.mark.parametrize("scaling", [{}, {"headroomPercent": 80}, {"minReplicas": 3}, {"maxReplicas": 1}])
@pytest.mark.parametrize("body", [pool(), split()], ids=["pool", "split"])
def test_the_bill_is_for_the_replicas_that_the_plan_runs(tmp_path: Path, body: Json, scaling: Json) -> None:
    spec = {**body["spec"], "scaling": scaling, "workload": {**body["spec"]["workload"], "requestsPerSecond": 60}}
    file = written(tmp_path / "it.yaml", {**body, "spec": spec})
    (planned,) = json.loads(weft("plan", "-f", file, "-o", "json").out)
    for each in planned["pools"]:
        assert each["study"]["bill"]["replicas"] == each["replicas"]
        assert each["study"]["bill"]["gpus"] == each["replicas"] * each["plan"]["gpusPerReplica"]


def test_costs_per_token_are_gpus_over_tokens_and_take_a_price() -> None:
    """H200 counts 1.2 of an H100."""
    bill = study(*LLAMA, *LOAD)["study"]["bill"]
    assert bill["cost"] == pytest.approx(bill["gpus"] * 1.2)
    assert bill["per_million_output_tokens"] == pytest.approx(bill["cost"] * 1e6 / (8 * 300 * 3600))
    assert bill["per_million_tokens"] == pytest.approx(bill["cost"] * 1e6 / (8 * 2300 * 3600))
    priced = weft("plan", *LLAMA, *LOAD, "--gpu-hour-price", "2.5").out
    assert f"{digits(2.5 * bill['per_million_output_tokens'])} per million output tokens" in priced


def test_prediction_errors_and_saturation_are_told_in_plain_words() -> None:
    """What a p99 keeps within, what the closest shapes miss, and from where on load costs more than it brings."""
    page = weft("plan", *LLAMA, *LOAD).out
    assert re.search(r"TTFT .* p99 at most [\d.]+ m?s with 90% confidence", page)
    assert re.search(r"saturation +from [\d.]+ requests/s each +beyond it latency grows faster than throughput", page)
    assert re.search(r"may take TTFT p95 [\d.]+ s of 1 s even without load \(with 90% confidence not more\)", page)
    none = weft("plan", *LLAMA, "--tpot", "p95=2ms").out
    assert "no shape meets the SLO with 90% confidence; the closest one may take TPOT p95" in " ".join(none.split())


def test_other_wishes_are_answered_with_the_gpus_they_would_take() -> None:
    """A looser target never takes more, a tighter one and twice the rate never fewer."""
    found = study(*LLAMA, *LOAD)["study"]
    cost = {each["with"]: each["cost"] for each in found["sensitivity"]}
    assert set(cost) == {"TTFT p95=1500ms", "TPOT p95=60ms", "TTFT p95=666ms", "TPOT p95=26ms", "16 requests/s"}
    now = found["bill"]["cost"]
    assert max(cost["TTFT p95=1500ms"], cost["TPOT p95=60ms"]) <= now * 1.1
    assert min(cost["TTFT p95=666ms"], cost["TPOT p95=26ms"]) >= now / 1.1
    assert cost["16 requests/s"] > now


def test_another_wish_is_told_with_what_it_costs() -> None:
    """As many GPUs of another kind cost more or less, and fewer of a larger kind may cost more."""
    model = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "L4", "--accelerator", "L40S")
    asked = (*model, "--rate", "2", "--isl", "1000", "--osl", "200")
    page = weft("plan", *asked).out
    found = study(*asked)["study"]
    now = found["bill"]
    told = [each for each in found["sensitivity"] if each["cost"] != now["cost"] and each["gpus"] is not None]
    assert told
    for each in told:
        (line,) = (line for line in page.splitlines() if f"with {each['with']} instead of " in line)
        assert f", cost {digits(each['cost'])} instead of {digits(now['cost'])}" in line


QUESTIONS = {
    "thirds": ("--rate", "8", "--ttft", "p95=1s", "--tpot", "p95=40ms"),
    "two percentiles": ("--rate", "8", "--ttft", "p50=400ms", "--ttft", "p95=1s", "--tpot", "p95=40ms"),
    "many digits": ("--rate", "7.3219", "--ttft", "p95=1s137ms", "--tpot", "p95=41ms"),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_wish_that_is_told_can_be_asked_for_and_gets_what_it_says(question: tuple[str, ...]) -> None:
    """Shape and GPUs are those of a plan with this wish: what is told is what was planned."""
    lengths = ("--isl", "2000:6000", "--osl", "300:600")
    told = study(*LLAMA, *lengths, *question)["study"]["sensitivity"]
    assert 5 == len(told)
    for each in told:
        found = weft("plan", *LLAMA, *lengths, *with_wish(question, each["with"]), "-o", "json")
        assert found.code in {0, 1}, found.err
        (planned,) = json.loads(found.out)
        (one,) = planned["pools"]
        if each["gpus"] is None:
            assert 1 == found.code
            assert one["plan"]["reason"] == "BestEffort"
        else:
            assert (each["shape"], each["gpus"]) == (one["plan"]["shape"], one["study"]["bill"]["gpus"])


def with_wish(question: tuple[str, ...], wish: str) -> tuple[str, ...]:
    """The question with a wish such as `TTFT p50=300ms p95=1s` or `16 requests/s` instead of its own."""
    name, *values = wish.split()
    option, given = (f"--{name.lower()}", values) if name in {"TTFT", "TPOT"} else ("--rate", [name])
    kept = [pair for pair in zip(question[::2], question[1::2], strict=True) if pair[0] != option]
    return tuple(text for pair in (*kept, *((option, value) for value in given)) for text in pair)


@pytest.mark.parametrize("question", [("p95=1ms", "p95=1ms"), ("p95=5s", "p95=2ms"), ("p95=3ms", "p95=50ms")])
def test_what_would_be_met_is_met_when_it_is_asked_for(question: tuple[str, str]) -> None:
    """The targets that the closest shape reaches, as the options take them."""
    asked = dict(zip(("--ttft", "--tpot"), question, strict=True))
    page = weft("plan", *LLAMA, "--rate", "1", *(text for pair in asked.items() for text in pair)).out
    reached = re.findall(r"(TTFT|TPOT) (p[0-9]+=[0-9a-z]+) instead of", page)
    assert reached
    again = asked | {f"--{name.lower()}": value for name, value in reached}
    assert 0 == weft("plan", *LLAMA, "--rate", "1", *(text for pair in again.items() for text in pair)).code


def test_a_target_that_cannot_be_shorter_is_not_tried_shorter() -> None:
    """No duration is below a millisecond."""
    found = study("--model", "meta-llama/Llama-3.1-8B-Instruct", "--rate", "1", "--ttft", "p95=1s", "--tpot", "p95=9ms")
    assert "TPOT p95=6ms" in [each["with"] for each in found["study"]["sensitivity"]]
    ending = weft("plan", *LLAMA, "--rate", "1", "--tpot", "p95=1ms", "-o", "json")
    (planned,) = json.loads(ending.out)
    wishes = [each["with"] for each in planned["pools"][0]["study"]["sensitivity"]]
    assert ["TPOT p95=2ms", "2 requests/s"] == wishes


def test_engines_that_auto_does_not_choose_are_compared_where_they_can_serve() -> None:
    """TensorRT-LLM makes no FP8 of a checkpoint in 16 bits, as the others do."""
    found, unquantised = study(*LLAMA, *LOAD), study(*LLAMA[:-2], *LOAD)
    assert found["plan"]["engine"].startswith("VLLM ")
    assert {each["engine"] for each in found["study"]["otherEngines"]} == {"SGLang"}
    assert {each["engine"] for each in unquantised["study"]["otherEngines"]} == {"SGLang", "TensorRTLLM"}


def test_a_breakdown_adds_up_and_says_what_binds_and_how_large_a_domain_is_useful() -> None:
    step = study(*LLAMA, *LOAD)["study"]["breakdown"]["decode"]
    assert sum(step["parts"].values()) == pytest.approx(step["seconds"])
    page = weft("plan", *LLAMA, *LOAD, "--breakdown").out
    assert f"bound by {step['limit']}" in page
    assert "attention and dense weights" in page
    assert "an NVLink domain of more than 4 GPUs buys nothing here" in page


def test_the_recommended_pool_can_be_applied_and_is_what_was_planned(tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    planned = study(*LLAMA, *LOAD, "--export", str(file))
    (body,) = yaml.safe_load_all(file.read_text())
    record = parse_pool(body)
    assert record.problem is None
    again = study("-f", str(file))
    assert again["plan"]["shape"] == planned["plan"]["shape"]
    assert again["plan"]["engine"] == planned["plan"]["engine"]


def test_where_the_other_form_is_cheaper_it_is_exported(tmp_path: Path) -> None:
    """Prompts that are long, answers that must come fast: prefill in the way of decode costs more than two pools."""
    file = tmp_path / "out.yaml"
    model = ("--model", "deepseek-ai/DeepSeek-V3", "--accelerator", "GB200")
    load = ("--rate", "60", "--isl", "2000", "--osl", "500", "--ttft", "p95=3s", "--tpot", "p95=50ms")
    ending = weft("plan", *model, *load, "--export", str(file), "-o", "json")
    (planned,) = json.loads(ending.out)
    found = planned["pools"][0]["study"]
    costs = found["otherForm"]["cost"], found["bill"]["cost"]
    assert costs[0] * 1.1 < costs[1]
    told = f"holds {planned['resource']} as PDSplit, not InferencePool: that costs {digits(costs[0])} instead of "
    assert f"weft: {file} {told}{digits(costs[1])}" == ending.sentence
    (body,) = yaml.safe_load_all(file.read_text())
    assert body["kind"] == "PDSplit"
    assert parse_split(body).problem is None
    assert weft("plan", "-f", str(file)).code == 0


def crowded(tmp_path: Path, kind: str, most: int, rate: int) -> str:
    """DeepSeek V3 for more than few replicas serve."""
    body = split() if kind == "PDSplit" else pool()
    load = {"requestsPerSecond": rate, "inputTokens": {"mean": 2000}, "outputTokens": {"mean": 500}}
    slo = {"ttft": {"p95": "3s"}, "tpot": {"p95": "50ms"}}
    body["spec"] = {"model": {"id": "deepseek-ai/DeepSeek-V3"}, "workload": load, "slo": slo}
    body["spec"] |= {"placement": {"accelerators": ["GB200"]}, "scaling": {"maxReplicas": most}}
    return written(tmp_path / "asked.yaml", body)


@pytest.mark.parametrize("kind", ["InferencePool", "PDSplit"])
def test_the_form_that_serves_the_whole_rate_is_exported_though_the_other_costs_less(tmp_path: Path, kind: str) -> None:
    asked, file = crowded(tmp_path, kind, 2, 220), tmp_path / "out.yaml"
    ending = weft("plan", "-f", asked, "--export", str(file), "-o", "json")
    (planned,) = json.loads(ending.out)
    assert yaml.safe_load(file.read_text())["kind"] == "PDSplit"
    if kind == "InferencePool":
        found = planned["pools"][0]["study"]
        assert found["otherForm"]["cost"] > found["bill"]["cost"]
        assert (
            f"as PDSplit, not InferencePool: that serves all, and not {found['bill']['served']:.0%}" in ending.sentence
        )
    else:
        assert planned["otherForm"]["cost"] < planned["cost"]
        less = f"and serve {planned['otherForm']['served']:.0%} of the rate, as more replicas are not allowed: "
        assert less in weft("plan", "-f", asked).out


@pytest.mark.parametrize("rate", [20, 24, 27, 30])
def test_a_split_is_exported_as_a_pool_unless_that_costs_a_tenth_more(tmp_path: Path, rate: int) -> None:
    """What is simpler goes first, and whoever asked for the other kind is told: cheaper, as much, dearer, too dear."""
    body, file = split(), tmp_path / "out.yaml"
    workload = {**body["spec"]["workload"], "requestsPerSecond": rate}
    body["spec"] |= {"workload": workload, "placement": {"accelerators": ["L4"]}}
    asked = written(tmp_path / "split.yaml", body)
    ending = weft("plan", "-f", asked, "--export", str(file), "-o", "json")
    (planned,) = json.loads(ending.out)
    then, now = planned["otherForm"]["cost"], planned["cost"]
    pooled = then <= now * 1.1
    assert ("InferencePool" if pooled else "PDSplit") == yaml.safe_load(file.read_text())["kind"]
    if pooled:
        why = "" if digits(then) != digits(now) and then < now else ", and within 10% a pool is simpler"
        told = f"that costs {digits(then)} instead of {digits(now)}{why}"
        assert f"weft: {file} holds PDSplit/reasoner as InferencePool, not PDSplit: {told}" == ending.sentence
    else:
        assert "holds" not in ending.err


def test_a_split_is_told_once_beside_the_pool_that_would_do_the_same(tmp_path: Path) -> None:
    """Whole against whole: what both halves cost together, and not under each of them."""
    file = written(tmp_path / "split.yaml", split())
    page = weft("plan", "-f", file).out
    (planned,) = json.loads(weft("plan", "-f", file, "-o", "json").out)
    costs = [each["study"]["bill"]["cost"] for each in planned["pools"]]
    assert sum(costs) == planned["cost"] > max(costs)
    other = planned["otherForm"]
    outcome = f"{digits(other['cost'])} instead of {digits(planned['cost'])}: {other['shapes']}"
    assert 1 == page.count("as an InferencePool it would cost")
    assert f"\n  as an InferencePool it would cost {outcome}\n" in page
    assert not [each for each in planned["pools"] if "otherForm" in each["study"]]


def test_a_pool_is_told_beside_the_split_that_would_do_the_same() -> None:
    found = study(*LLAMA, *LOAD)["study"]
    costs = f"{digits(found['otherForm']['cost'])} instead of {digits(found['bill']['cost'])}: "
    assert f"\n  as a PDSplit it would cost {costs}{found['otherForm']['shapes']}" in weft("plan", *LLAMA, *LOAD).out


def test_where_nothing_meets_the_slo_it_is_told_what_would_have_to_change() -> None:
    """No list of wishes that nothing meets either."""
    ending = weft("plan", *LLAMA, "--rate", "1", "--ttft", "p95=1ms", "--tpot", "p95=1ms")
    assert "it would be met with TTFT p95=" in ending.out
    assert "no shape meets that" not in ending.out


def test_a_plan_without_latency_targets_says_that_no_latency_is_too_long(tmp_path: Path) -> None:
    """Once for both halves of a split. Any target is enough: whoever sets one has chosen."""
    told = "no latency target is set: this is the cheapest that keeps up with the rate"
    assert told in weft("plan", *LLAMA).out
    assert told not in weft("plan", *LLAMA, "--tpot", "p95=40ms").out
    assert weft("plan", "-f", written(tmp_path / "split.yaml", split())).out.count(told) == 1


def test_options_of_a_question_are_not_ignored_beside_a_file(tmp_path: Path) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool()), "--rate", "300")
    assert "go with --model" in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_an_engine_that_misses_the_slo_is_told_without_a_cost() -> None:
    page = weft("plan", *LLAMA, *LOAD[:-4], "--ttft", "p95=350ms", "--tpot", "p95=40ms").out
    assert "SGLang has no shape that meets the SLO" in page


def test_nothing_is_exported_of_what_has_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    body = pool(placement={"accelerators": ["L4"]})
    body["spec"]["model"]["id"] = "meta-llama/Llama-3.1-405B-Instruct"
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", body), "--export", str(file))
    assert ending.code in {1, 2}
    assert not file.exists()


def test_the_picture_is_written_or_refused_by_its_ending(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    assert weft("plan", *LLAMA, *LOAD, "--plot", str(file)).code == 0
    assert file.read_text().startswith("<?xml")
    ending = weft("plan", *LLAMA, *LOAD, "--plot", str(tmp_path / "plan.gif"))
    assert (ending.code, ending.out) == (2, "")
    assert ".svg" in ending.sentence
    assert "Pareto front" in weft("plan", *LLAMA, *LOAD, "--chart").out


def test_every_part_of_a_step_has_words() -> None:
    assert set(Seconds._fields) == set(PARTS)


def test_a_model_that_nobody_knows_comes_with_its_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(configs.LLAMA))
    asked = ("--model", "house/eight", "--accelerator", "H100", *LOAD)
    assert study(*asked, "--config", str(file))["plan"]["shape"].startswith("H100 BF16")
    unknown = weft("plan", *asked)
    assert (unknown.code, unknown.out) == (2, "")
    file.write_text(json.dumps({name: value for name, value in configs.LLAMA.items() if name != "hidden_size"}))
    lacking = weft("plan", *asked, "--config", str(file))
    assert "hidden_size" in lacking.sentence
    assert (lacking.code, lacking.out) == (2, "")


def test_a_plan_of_a_large_model_on_a_rack_takes_a_fifth_of_a_second() -> None:
    """671 billion parameters, 72 GPUs, every engine that predictions exist for, where a yard takes 50 microseconds."""
    known = load()
    catalog = replace(known, engines=tuple(replace(each, automatic=True) for each in known.engines))
    spec = parse_pool(pool(model="deepseek-ai/DeepSeek-V3", slo={"ttft": {"p95": "3s"}, "tpot": {"p95": "50ms"}})).spec
    assert spec is not None
    architecture = resolve_architecture(spec.model, catalog)
    rack = (Supply("GB200", 189471 * MIB, domain_gpus=72, gpus_per_node=4),)
    loads = (replace(spec.workload, input_tokens=2000.0 + each) for each in range(1000))
    requests = (ShapeRequest(replace(spec, workload=each), architecture, each, rack) for each in loads)
    assert_each_quick((partial(choose, request, catalog) for request in requests), yards=0.2 * 20_000)


def test_a_split_over_tcp_is_told_what_it_would_cost_over_rdma(tmp_path: Path) -> None:
    """As much as the plan of a split that names devices; one over RDMA is told nothing."""
    spec = split()["spec"]
    spec = {**spec, "workload": {**spec["workload"], "requestsPerSecond": 60}}
    devices = {"resources": {"rdma": {"resource": "rdma/ib", "count": 1}}}
    files = [
        written(tmp_path / f"{name}.yaml", {**split(), "spec": {**spec, "engine": engine}})
        for name, engine in (("narrow", {}), ("wide", devices))
    ]
    (narrow,), (wide,) = (json.loads(weft("plan", "-f", file, "-o", "json").out) for file in files)
    assert wide["overRdma"] is None
    assert narrow["overRdma"]["cost"] == wide["cost"] < narrow["cost"]
    told = f"where nodes have them: it would cost {digits(wide['cost'])} instead of {digits(narrow['cost'])}, prefill "
    assert [told in weft("plan", "-f", file).out for file in files] == [True, False]
