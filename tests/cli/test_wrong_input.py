"""Input that nothing could be planned or predicted from: one sentence with field, value and what is allowed; no output.

The table is what people get wrong; `test_refusals` has what the API server would refuse as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.catalog.configs import SHORT_LLAMA
from tests.cli.terminal import listed, node, pool, split, weft, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Ending

Json = dict[str, Any]

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
TAKES = f"{LLAMA} takes 131072 tokens, prompt and answer together; allowed: up to 131071"
RATE = "must be a quantity above zero such as 8 or 500m, "
DURATION = "must be a duration above zero such as 300ms"
REFERENCE = {"id": "acme/own", "config": {"configMapRef": {"name": "own"}}}


def of(model: Json, **spec: object) -> Json:
    """A pool of this model."""
    body = pool()
    return {**body, "spec": {**body["spec"], "model": model, **spec}}


def traffic(**fields: object) -> Json:
    """A pool whose workload is wrong in these fields."""
    whole = {"requestsPerSecond": 4, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}}
    return pool(workload={**whole, **fields})


def own(**changes: object) -> Json:
    """A pool that brings its own config.json; None takes a field out."""
    config = {name: value for name, value in {**SHORT_LLAMA, **changes}.items() if value is not None}
    return of({"id": "acme/own", "config": {"inline": config}})


def on(*accelerators: str) -> Json:
    return pool(placement={"accelerators": list(accelerators)})


def limited(tokens: int) -> Json:
    return of({"id": LLAMA, "maxModelLen": tokens})


WRONG: dict[str, tuple[Json, tuple[str, ...]]] = {
    "a negative prompt": (traffic(inputTokens={"mean": -5}), ("spec.workload.inputTokens.mean", "-5", "or equal to 1")),
    "no prompt": (traffic(inputTokens={"mean": 0}), ("spec.workload.inputTokens.mean", "not 0", "or equal to 1")),
    "half a token": (traffic(inputTokens={"mean": 0.5}), ("inputTokens.mean", "not 0.5", "a whole number")),
    "a negative answer": (traffic(outputTokens={"mean": -1}), ("spec.workload.outputTokens.mean", "-1", "equal to 1")),
    "a negative percentile": (traffic(inputTokens={"mean": 9, "p95": -1}), ("inputTokens.p95", "-1", "equal to 1")),
    "a percentile below the mean": (traffic(inputTokens={"mean": 9, "p95": 8}), ("inputTokens", "p95: 8", "below")),
    "no requests": (traffic(requestsPerSecond=0), ("spec.workload.requestsPerSecond", "not 0", RATE)),
    "negative requests": (traffic(requestsPerSecond=-1), ("spec.workload.requestsPerSecond", "not -1", RATE)),
    "a rate in words": (traffic(requestsPerSecond="many"), ("requestsPerSecond", "not 'many'", RATE)),
    "more hits than prompts": (traffic(prefixHitPercent=101), ("prefixHitPercent", "not 101", "or equal to 100")),
    "an SLO of 0 ms": (pool(slo={"ttft": {"p95": "0ms"}}), ("spec.slo.ttft.p95", "not '0ms'", DURATION)),
    "an SLO of 0": (pool(slo={"tpot": {"p95": 0}}), ("spec.slo.tpot.p95", "not 0", DURATION)),
    "a negative SLO": (pool(slo={"tpot": {"p50": "-5ms"}}), ("spec.slo.tpot.p50", "not '-5ms'", DURATION)),
    "an unknown percentile": (pool(slo={"ttft": {"p97": "1s"}}), ("spec.slo.ttft.p97", "'p95' or 'p99'")),
    "a prompt beyond the context": (
        traffic(inputTokens={"mean": 200_000}),
        ("ContextExceeded: spec.workload.inputTokens.mean 200000", TAKES),
    ),
    "an answer beyond the context": (
        traffic(outputTokens={"mean": 200_000}),
        ("ContextExceeded: spec.workload.outputTokens.mean 200000", TAKES),
    ),
    "both beyond the context": (
        traffic(inputTokens={"mean": 100_000}, outputTokens={"mean": 100_000}),
        ("inputTokens.mean 100000 and spec.workload.outputTokens.mean 100000 are 200000", "up to 131072 in all"),
    ),
    "long prompts beyond the context": (
        traffic(inputTokens={"mean": 100_000, "p95": 200_000}),
        ("ContextExceeded: spec.workload.inputTokens.p95 200000", TAKES),
    ),
    "a longer context than the model has": (
        limited(200_000),
        ("ContextExceeded: spec.model.maxModelLen 200000", "allowed: up to 131072"),
    ),
    "a prompt beyond the context that is asked for": (
        limited(500),
        ("spec.workload.inputTokens.mean 1000: spec.model.maxModelLen allows 500 tokens", "allowed: up to 499"),
    ),
    "a misspelt accelerator": (
        on("H200", "GB20"),
        ("spec.placement.accelerators: accelerator 'GB20' is not in the catalog, perhaps GB200", "it has A100, "),
    ),
    "the label of an accelerator": (on("NVIDIA-H200"), ("'NVIDIA-H200' is not in the catalog, perhaps H200;",)),
    "an unheard-of accelerator": (on("TPU"), ("accelerator 'TPU' is not in the catalog; it has A100, ",)),
    "a misspelt model": (
        pool(model=f"{LLAMA[:-2]}t"),
        ("ModelUnknown: spec.model.id: model 'meta-llama/Llama-3.1-8B-Instrut'", f"perhaps {LLAMA} or"),
    ),
    "the beginning of a model": (pool(model="llama-3.3-70b"), ("perhaps meta-llama/Llama-3.3-70B-Instruct or",)),
    "an unheard-of model": (
        pool(model="acme/own"),
        ("model 'acme/own' is not in the catalog; add spec.model.config.inline or configMapRef", "create configmap"),
    ),
    "a config without layers": (
        own(num_hidden_layers=None),
        ("config.json of acme/own: num_hidden_layers is missing: a whole number of at least 1 is needed",),
    ),
    "a config without architecture": (own(architectures=None), ("architectures is missing", "LlamaForCausalLM")),
    "a config without type": (own(torch_dtype=None), ("torch_dtype (or dtype) is missing: one of bfloat16, float16",)),
    "an empty config": (of({"id": "acme/own", "config": {"inline": {}}}), ("architectures is missing",)),
    "a config of negative size": (own(hidden_size=-5), ("hidden_size must be a whole number of at least 1, not -5",)),
    "a config of unknown type": (own(torch_dtype="int3"), ("torch_dtype 'int3' is not understood; understood are",)),
}


def left(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def refuses(ending: Ending, *words: str) -> bool:
    """One sentence with these words, exit code 2, and nothing on stdout."""
    assert all(word in ending.sentence for word in words), ending.sentence
    return (ending.code, ending.out) == (2, "")


@pytest.mark.parametrize("kind", ["InferencePool", "PDSplit"])
@pytest.mark.parametrize(("body", "words"), WRONG.values(), ids=WRONG)
def test_a_pool_or_split_that_cannot_be_is_one_sentence(
    tmp_path: Path, body: Json, words: tuple[str, ...], kind: str
) -> None:
    """And nothing else: no half of an answer, and no file."""
    files = ("-f", written(tmp_path / "pool.yaml", {**body, "kind": kind}))
    fabric = ("--fabric", written(tmp_path / "nodes.yaml", node("board-0")))
    before = left(tmp_path)
    assert refuses(weft("plan", *files, *fabric), f"{kind}/chat: ", *words)
    assert before == left(tmp_path)


def test_a_program_that_asks_for_data_gets_no_half_of_it(tmp_path: Path) -> None:
    """A good pool beside a wrong one is not planned either."""
    file = written(tmp_path / "pools.yaml", pool("good"), traffic(inputTokens={"mean": 200_000}))
    assert refuses(weft("plan", "-f", file, "-o", "json"), "InferencePool/chat: ContextExceeded")


def test_what_both_sides_of_a_split_say_is_said_once(tmp_path: Path) -> None:
    body = {**traffic(inputTokens={"mean": 200_000}), "kind": "PDSplit"}
    assert 1 == weft("plan", "-f", written(tmp_path / "split.yaml", body)).sentence.count("ContextExceeded")


def test_a_field_of_one_side_is_named_where_the_split_has_it(tmp_path: Path) -> None:
    body = split()
    body["spec"]["decode"] = {"placement": {"accelerators": ["H20O"]}}
    ending = weft("plan", "-f", written(tmp_path / "split.yaml", body))
    assert refuses(ending, "PDSplit/reasoner: ", "spec.decode.placement.accelerators: accelerator 'H20O'", "H200")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"config.json": json.dumps(SHORT_LLAMA)[:60]}, ("config.json of acme/own: is not JSON (", "is it whole?")),
        ({"config.json": ""}, ("config.json of acme/own: is not JSON", "is it whole?")),
        ({"config.json": "[1]"}, ("config.json of acme/own: must be an object, not [1]",)),
        ({"config.json": json.dumps({**SHORT_LLAMA, "hidden_size": None})}, ("hidden_size is missing",)),
        (
            {"config.json": SHORT_LLAMA},
            ("data.config.json of ConfigMap own in namespace default must be a string, not {",),
        ),
        ({"hf.json": "{}"}, ("ModelConfigMissing: ConfigMap own with the key config.json", "--from-file=config.json")),
    ],
    ids=["half of it", "nothing", "a list", "a missing key", "an object", "another key"],
)
def test_a_config_map_that_holds_no_config_is_one_sentence(tmp_path: Path, data: Json, words: tuple[str, ...]) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": data}
    file = written(tmp_path / "all.yaml", of(REFERENCE), config_map)
    assert refuses(weft("plan", "-f", file), *words)


def test_a_context_that_the_engine_stretches_is_the_users_word(tmp_path: Path) -> None:
    """YaRN on the command line makes more of a model than its config.json states."""
    engine = {"name": "VLLM", "args": ['--hf-overrides={"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}']}
    body = of({"id": "Qwen/Qwen3-8B", "maxModelLen": 131_072}, engine=engine)
    assert 0 == weft("plan", "-f", written(tmp_path / "pool.yaml", body)).code
    body["spec"]["workload"]["inputTokens"] = {"mean": 140_000}
    file = written(tmp_path / "pool.yaml", body)
    assert refuses(weft("plan", "-f", file), "inputTokens.mean 140000: spec.model.maxModelLen allows 131072 tokens")


def test_a_percentile_that_nobody_declared_may_lie_beyond_the_context(tmp_path: Path) -> None:
    """Twice the mean is an assumption of ours, and no reason to refuse a pool."""
    file = written(tmp_path / "pool.yaml", traffic(inputTokens={"mean": 100_000}))
    assert "ContextExceeded" not in weft("plan", "-f", file).err


YAML, JSON = yaml.safe_dump(listed(node("a"), node("b"))), json.dumps(listed(node("a"), node("b")), indent=2)
FLOW = "apiVersion: weft.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: chat}\nspec: {model: {id: meta-lla"
KUBECTL = yaml.safe_dump({"apiVersion": "v1", "items": [node("a"), node("b")], "kind": "List"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (FLOW, ("is neither YAML nor JSON: line 5, column 1: ", "is the file whole?")),
        (JSON[: len(JSON) // 2], ("is neither YAML nor JSON: line ", "is the file whole?")),
        (YAML[: YAML.index("nvidia.com/gpu.product") + 9], ("is neither YAML nor JSON: line ", "is the file whole?")),
        (KUBECTL[: KUBECTL.index("kind: List")], ("document 1 of", "has items and no kind: is the file whole?")),
    ],
    ids=["flow style", "JSON", "in a key", "between nodes"],
)
def test_half_a_file_is_told_as_that(tmp_path: Path, content: str, words: tuple[str, ...]) -> None:
    """Block style that ends between two fields looks whole; `kubectl` writes the kind of a list last."""
    file = tmp_path / "half.yaml"
    file.write_text(content, encoding="utf-8")
    assert refuses(weft("plan", "-f", str(file)), str(file), *words)
    pools = written(tmp_path / "pool.yaml", pool())
    assert refuses(weft("plan", "-f", pools, "--fabric", str(file)), str(file), *words)


def test_what_two_commands_of_kubectl_wrote_into_one_file_is_read_or_told(tmp_path: Path) -> None:
    """JSON needs nothing between two objects, YAML does."""
    file = tmp_path / "both"
    file.write_text(f"{JSON}\n{json.dumps(listed(node('c')))}\n", encoding="utf-8")
    assert "3 NVLink domains, 24 GPUs" in weft("fabric", "-f", str(file)).out
    file.write_text("apiVersion: v1\nkind: Node\n" * 2, encoding="utf-8")
    assert refuses(weft("fabric", "-f", str(file)), "appears twice: give it once, or --- before it if another object")


@pytest.mark.parametrize(
    ("product", "words"),
    [
        ("NVIDIA-H2000", ("node a has 'NVIDIA-H2000', which the catalog does not know", "weft.dev/accelerator=NAME")),
        ("", ("node a offers 8 nvidia.com/gpu but no label names the product", "kubectl label node a")),
    ],
    ids=["unknown", "none"],
)
def test_a_file_of_nodes_whose_labels_name_nothing_known_is_wrong(
    tmp_path: Path, product: str, words: tuple[str, ...]
) -> None:
    """One node with a known label beside them is enough to plan with."""
    pools, nodes = written(tmp_path / "pool.yaml", pool()), written(tmp_path / "nodes.yaml", node("a", product))
    assert refuses(weft("plan", "-f", pools, "--fabric", nodes), "NoAccelerator", *words)
    both = written(tmp_path / "nodes.yaml", node("a", product), node("b"))
    assert 0 == weft("plan", "-f", pools, "--fabric", both).code


@pytest.mark.parametrize("amount", [-8, "-8", "many", True], ids=repr)
def test_a_node_with_an_amount_that_cannot_be_is_told_by_its_field(tmp_path: Path, amount: object) -> None:
    body = node("a")
    body["status"]["capacity"] = {"nvidia.com/gpu": amount}
    pools, nodes = written(tmp_path / "pool.yaml", pool()), written(tmp_path / "nodes.yaml", body)
    words = ("Node a in object 1 of", "status.capacity must be an object of amounts, zero or more")
    assert refuses(weft("plan", "-f", pools, "--fabric", nodes), *words)


HEADER = "model,gpu,engine,precision,tp,isl,osl,concurrency,request_rate"
ROW: Json = {
    "model": "Llama-3.3-70B-Instruct",
    "gpu": "H200",
    "engine": "vllm",
    "precision": "FP8",
    "tp": "2",
    "isl": "1000",
    "osl": "500",
    "concurrency": "16",
    "request_rate": "",
}


def table(path: Path, *changes: Json) -> str:
    """A CSV file of one good row, and one with each of the changes."""
    rows = [{**ROW, **change} for change in ({}, *changes)]
    lines = [HEADER, *(",".join(row[name] for name in HEADER.split(",")) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("before", [None, b"what an earlier run wrote\n"], ids=["no output yet", "an output there"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"isl": "-5"}, "row 3: isl '-5' must be a number from 1 to 100000000"),
        ({"isl": "0"}, "row 3: isl '0' must be a number from 1 to"),
        ({"osl": "-1"}, "row 3: osl '-1' must be a number from 1 to"),
        ({"osl": "nan"}, "row 3: osl 'nan' must be a number"),
        ({"isl": "1k"}, "row 3: isl '1k' must be a number"),
        ({"concurrency": "0"}, "row 3: concurrency '0' must be a whole number from 1 to"),
        ({"concurrency": "", "request_rate": "0"}, "row 3: request_rate '0' must be a number above 0"),
        ({"concurrency": "", "request_rate": "-2"}, "row 3: request_rate '-2' must be a number above 0"),
        ({"tp": "0"}, "row 3: tp '0' must be a whole number from 1 to"),
        ({"tp": "1.5"}, "row 3: tp '1.5' must be a whole number from 1 to"),
    ],
    ids=lambda value: " ".join(f"{name} {text}" for name, text in value.items()) if isinstance(value, dict) else "",
)
def test_a_table_with_a_number_that_cannot_be_is_refused_whole(
    tmp_path: Path, changes: Json, words: str, before: bytes | None
) -> None:
    output = tmp_path / "out.csv"
    if before is not None:
        output.write_bytes(before)
    file = table(tmp_path / "in.csv", changes)
    kept = left(tmp_path)
    assert refuses(weft("predict", "--csv", file, "-o", str(output)), file, words)
    assert kept == left(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": "H2000"}, "NoAccelerator: accelerator 'H2000' is not in the catalog, perhaps H200"),
        ({"model": "Llama-3.3-70B-Instrct"}, "ModelUnknown: model 'Llama-3.3-70B-Instrct' is not in the catalog, perh"),
        ({"isl": "131073"}, "ContextExceeded: isl 131073 and osl 500 are more than the 131072 tokens"),
        ({"engine": "tgi"}, "SpecInvalid: engine 'tgi' must be one of vllm, sglang"),
    ],
    ids=["gpu", "model", "context", "engine"],
)
def test_what_weft_does_not_know_leaves_one_row_of_a_table_unanswered(
    tmp_path: Path, changes: Json, reason: str
) -> None:
    """Published tables hold more than any model of performance knows: the other rows are answered."""
    output = tmp_path / "out.csv"
    ending = weft("predict", "--csv", table(tmp_path / "in.csv", changes), "-o", str(output))
    assert (ending.code, ending.complaints) == (1, [])
    assert ending.out.endswith("1 of 2 rows answered\n")
    assert reason in output.read_text(encoding="utf-8")


def test_a_file_of_something_else_is_told_what_it_holds() -> None:
    ending = weft("plan", "-f", "-", stdin="kind: Deployment\n---\na: [1]\n")
    assert ending.sentence.endswith("to plan, only an object without a kind, an unversioned Deployment")
