"""What the pages of explain, top and fabric tell, from a status or a fabric alone."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.statuses import decided
from tests.cli.terminal import listed, node, pod, pool, split, weft, written
from tests.manifests import load
from weft.cli.ends.failure import CommandFailure
from weft.cli.explain.page import explanation, is_ready
from weft.cli.explain.top_page import top_page
from weft.cli.telling.figures import figure, moment
from weft.cli.telling.terminal import console
from weft.cli.typed.reference import parse_reference
from weft.domain.texts.figures import counted, digits, seconds

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

Json = dict[str, Any]
NOW = 1_800_000_000.0


def _text(page: RenderableType) -> str:
    printed = console()
    with printed.capture() as captured:
        printed.print(page)
    return captured.get()


def _lines(page: RenderableType) -> list[str]:
    return [line.rstrip() for line in _text(page).splitlines()]


def _with_status(body: Json, *, ready: bool = True) -> Json:
    metadata = {**body["metadata"], "namespace": "team", "uid": f"uid-of-{body['metadata']['name']}"}
    return {**body, "metadata": metadata, "status": decided(body, ready=ready, now=NOW)}


def test_explain_tells_shape_places_load_and_the_losers() -> None:
    body = _with_status(pool())
    page = _text(explanation(body))
    assert is_ready(body)
    assert "InferencePool/chat  namespace team  1 desired  1 ready  http://chat:8000" in page
    assert body["status"]["plan"]["shape"] in page
    assert "expected of one replica: " in page
    assert "replica 0  " in page
    assert "since 2027-01-15T08:00:00Z" in page
    assert "observed: 7.91 requests/s, 1200 tokens in, 250 tokens out, 97 % within the SLO" in page
    assert "note: the engine does not show vllm:kv_cache_usage_perc" in page
    assert "TTFT p50 200 ms p95 1.43 s, TPOT p95 37.1 ms" in page
    assert "instead of spec.workload: requestsPerSecond" in page
    assert page.count("\nnot  ") == len(body["status"]["plan"]["alternatives"]) > 0


def test_explain_tells_what_weft_would_run_where_somebody_else_decides() -> None:
    body = _with_status(pool())
    status = {"scale": {"reason": "OwnedExternally", "message": "4 replicas"}, "recommendedReplicas": 3}
    body["status"].update(status)
    assert "replicas: OwnedExternally: 4 replicas; Weft would run 3" in _lines(explanation(body))


def test_explain_has_no_empty_lines_where_nothing_lost() -> None:
    """As with a shape that is pinned."""
    body = _with_status(pool())
    body["status"]["plan"]["alternatives"] = []
    assert ("", "") not in pairwise(_lines(explanation(body)))


def test_explain_tells_what_a_start_takes_as_the_status_does() -> None:
    body = _with_status(pool())
    told = body["status"]["startUp"]["message"]
    assert re.fullmatch(r"\S+ s estimated: image \S+ s, weights \S+ s, engine \S+ s", told)
    assert f"\nstart-up: {told}" in _text(explanation(body))
    del body["status"]["startUp"]
    assert "start-up" not in _text(explanation(body))


def test_explain_tells_what_was_learnt_of_the_planned_shape() -> None:
    """And not of one that ran before."""
    body = _with_status(pool())
    plan = body["status"]["plan"]
    learnt = {
        "shape": plan["shape"],
        "engine": plan["engineRelease"],
        "prefill": "1.12",
        "decode": "0.94",
        "points": 37,
    }
    older = {**learnt, "shape": "H100 FP8 TP8", "decode": "3"}
    body["status"]["calibration"] = [older, learnt]
    assert "calibrated: prefill 1.12, decode 0.94 of the prediction, from 37 points" in _text(explanation(body))
    body["status"]["calibration"] = [older]
    assert "calibrated" not in _text(explanation(body))


def test_explain_tells_the_load_at_which_targets_were_met_in_the_planned_shape() -> None:
    body = _with_status(pool())
    release, shape = body["status"]["plan"]["engineRelease"], body["status"]["plan"]["shape"]
    proven = {"targets": "TTFT p95 1.5 s", "requestsPerSecond": "0.813", "replicas": 22}
    of = f"Llama as {shape} on {release['name']} {release['version']}"
    body["status"]["proven"] = {"subject": of, **proven, "inputTokens": "4600", "outputTokens": "91"}
    told = "proven: TTFT p95 1.5 s was met at 0.813 requests/s on each of 22 replicas, 4600 and 91 tokens in and out"
    assert told in _text(explanation(body))
    body["status"]["proven"]["subject"] = "Llama as H100 FP8 TP8 on VLLM 0.32.0"
    assert "proven" not in _text(explanation(body))


def test_explain_shows_conditions_in_the_order_in_which_they_depend() -> None:
    page = _text(explanation(_with_status(pool())))
    places = [page.index(f"\n{kind} ") for kind in ("Planned", "Placed", "Ready", "SLOMet", "NetworkBound")]
    assert sorted(places) == places


def test_explain_tells_why_replicas_fail() -> None:
    body = _with_status(pool(), ready=False)
    page = _text(explanation(body))
    assert not is_ready(body)
    assert "NoReplicaReady" in page
    assert "last failure (2 in a row, 2027-01-15T08:00:00Z): EngineFailed: exit code 1: CUDA out of memory" in page
    body["status"]["avoided"] = [{"node": "b-0", "since": "2027-01-15T08:00:00Z", "reason": "EngineFailed"}]
    told = "nodes that come last: b-0 (EngineFailed, 2027-01-15T08:00:00Z)"
    assert told in " ".join(_text(explanation(body)).split())


def test_explain_names_who_places_a_replica_where_weft_does_not() -> None:
    body = _with_status(pool())
    asked = {"scheduler": "Kueue", "queue": "llm", "pods": 1, "level": "", "group": 1}
    (first, *_) = body["status"]["assignments"]
    body["status"]["assignments"] = [{**first, "nodes": [], "handover": asked}]
    assert "replica 0  Kueue, queue llm  since" in _text(explanation(body))


def test_explain_shows_both_sides_of_a_split() -> None:
    page = _text(explanation(_with_status(split())))
    assert "PDSplit/reasoner" in page
    assert re.search(r"prefill 1/\d  decode 1/\d ", page)
    assert "shape: prefill " in page


def test_explain_shows_what_the_network_should_do_and_that_it_is_slow() -> None:
    body = _with_status(split())
    told = body["status"]["transport"]
    assert f"transport: {told}" in " ".join(_text(explanation(body)).split())
    body["status"]["observed"] = {"transfer": "70ms", "transferExpected": "40ms"}
    page = " ".join(_text(explanation(body)).split())
    assert "measured: 70 ms a transfer, 40 ms expected of such prompts" in page
    assert "the network is slow" not in page
    body["status"]["observed"] = {"transfer": "150ms", "transferExpected": "40ms"}
    page = " ".join(_text(explanation(body)).split())
    assert "150 ms a transfer, 40 ms expected of such prompts: the network is slow" in page


def test_explain_asks_for_the_operator_when_there_is_no_status() -> None:
    """By the names in the manifests, which are those of the chart as the README installs it."""
    page = _text(explanation({**pool(), "metadata": {"name": "new"}}))
    (deployment,) = (body for body in load("base") if body["kind"] == "Deployment")
    name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    assert f"kubectl -n {namespace} logs deployment/{name}" in " ".join(page.split())
    assert not is_ready(pool())


def test_explain_takes_messages_as_they_are() -> None:
    """Brackets in a message are no markup."""
    body = _with_status(pool())
    body["status"]["conditions"][0]["message"] = "see [bold]x[/nope] of [a]"
    assert "see [bold]x[/nope] of [a]" in _text(explanation(body))


def test_top_puts_the_sides_of_a_split_below_it() -> None:
    parent = _with_status(split())
    owner = [{"kind": "PDSplit", "uid": parent["metadata"]["uid"]}]
    child = _with_status(pool("reasoner-prefill"))
    child["metadata"]["ownerReferences"] = owner
    rows = _text(top_page([_with_status(pool()), child], [parent], "team")).splitlines()
    assert ["NAME", "reasoner", "reasoner-prefill", "chat"] == [row.split()[0] for row in rows]
    assert rows[2].startswith("  reasoner-prefill")
    assert "1+1" in rows[1]
    assert ["1", "1"] == rows[3].split()[1:3]
    assert "1.43 s p95" in rows[3]
    assert rows[3].rstrip().endswith("Serving")


def test_top_names_the_first_thing_that_is_wrong() -> None:
    body = _with_status(pool(), ready=False)
    assert "NoReplicaReady" in _text(top_page([body], [], "team"))
    body["status"]["conditions"] = [
        {"type": "Planned", "status": "False", "reason": "ModelUnknown"},
        {"type": "Ready", "status": "False", "reason": "NoReplicaReady"},
    ]
    page = _text(top_page([body], [], "team"))
    assert "ModelUnknown" in page
    assert "NoReplicaReady" not in page


def test_top_shows_namespaces_only_where_there_are_several() -> None:
    body = _with_status(pool())
    assert "NAMESPACE" not in _text(top_page([body], [], "team"))
    assert "NAMESPACE" in _text(top_page([body], [], None))


def test_top_takes_a_resource_without_status_and_an_empty_cluster() -> None:
    bare = {**pool(), "metadata": {"name": "new", "namespace": "team", "uid": "u"}}
    _, row = _lines(top_page([bare], [], "team"))
    assert ["new", "-", "-"] == row.split()[:3]
    assert row.endswith("not looked at yet")
    assert "-A shows all namespaces" in _text(top_page([], [], "team"))


def test_fabric_shows_what_is_free_and_why_not(tmp_path: Path) -> None:
    cordoned = node("board-1")
    cordoned["spec"]["unschedulable"] = True
    tainted = node("board-2")
    tainted["spec"]["taints"] = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    racks = [node(f"rack-{i}", "NVIDIA-GB200", 4, "uuid.1") for i in range(2)]
    nodes = listed(node("board-0"), cordoned, tainted, *racks, pod("training", "board-0", 3))
    page = weft("fabric", "-f", written(tmp_path / "nodes.yaml", nodes)).out
    assert "fabric: 4 NVLink domains, 32 GPUs, 21 free" in page
    assert "board-0  H200  ■■■□□□□□  5 of 8 free" in page
    assert "board-1  H200  ××××××××  0 of 8 free  NodeCordoned" in page
    assert "taint team=a:NoSchedule" in page
    assert "uuid.1  GB200  8 of 8 free  2 nodes" in page


def test_a_fabric_without_accelerators_asks_for_the_device_plugin(tmp_path: Path) -> None:
    bare = node("plain", gpus=0)
    bare["status"] = {"conditions": bare["status"]["conditions"]}
    bare["metadata"]["labels"] = {}
    ending = weft("fabric", "-f", written(tmp_path / "nodes.yaml", bare))
    assert "device plugin" in ending.out
    assert 0 == ending.code


def test_a_narrow_terminal_gets_no_column_of_single_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.telling.terminal.WIDTH_OF_A_PIPE", 80)
    page = weft("plan", "-f", written(tmp_path / "pool.yaml", pool())).out
    losers = page.partition("why the others lost")[2].splitlines()
    assert any("requests/s  CostsMore" in line for line in losers)
    assert all(len(line) <= 80 for line in page.splitlines())


def test_no_figure_is_cut_on_a_terminal_that_is_too_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty columns, in which a table of seven does not fit: the terminal breaks its lines."""
    monkeypatch.setattr("weft.cli.telling.terminal.WIDTH_OF_A_PIPE", 40)
    nodes = written(tmp_path / "nodes.yaml", listed(*(node(f"board-{index}") for index in range(4))))
    page = weft("fabric", "--fabric", nodes).out
    assert "…" not in page
    assert ["H200", "32", "8", "32", "16", "8", "4"] == page.splitlines()[-1].split()
    requests = ("--trace", "poisson:rate=2,seconds=60,isl=500,osl=50", "--policy", "weft", "--policy", "hpa")
    page = weft("simulate", "-f", written(tmp_path / "pool.yaml", pool()), "--fabric", nodes, *requests).out
    assert re.search(r"^within the SLO +100 % +100 %$", page, re.MULTILINE)


def test_no_name_is_cut_in_a_plan_on_a_terminal_that_is_too_narrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no blank to break at goes on in the next line, such as the image."""
    monkeypatch.setattr("weft.cli.telling.terminal.WIDTH_OF_A_PIPE", 40)
    page = weft("plan", "--fabric", "4xH200", "-f", written(tmp_path / "pool.yaml", split())).out
    assert "…" not in page
    assert "docker.io/vll" in page


def test_columns_are_headed_in_capitals_as_kubectl_heads_them(tmp_path: Path) -> None:
    page = weft("plan", "--breakdown", "-f", written(tmp_path / "pool.yaml", pool())).out
    heads = [" ".join(line.split()) for line in page.splitlines()]
    assert {"SHAPE ENGINE GPUS REQUESTS/S TTFT P99 TPOT P99 REASON", "NVLINK DOMAIN COST SHAPE"} <= set(heads)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0371, "0.0371"), (24.94, "24.9"), (999.9, "1000"), (1203.0, "1200"), (0.0, "0"), (23456789.0, "23500000")],
)
def test_digits_are_three_and_never_an_exponent(value: float, text: str) -> None:
    assert text == digits(value)


def test_figures_have_a_unit_that_fits() -> None:
    assert ("37.1 ms", "1.23 s", "1200", "never") == (
        figure("37.07053974419959ms"),
        figure("1234ms"),
        figure("1199.7"),
        figure("never"),
    )
    assert ("350 ms", "2 s", "595 s") == (seconds(0.35), seconds(2.0), seconds(595.2))
    assert ("10 min", "90 min", "599 min") == (seconds(600.0), seconds(5400.0), seconds(35_940.0))
    assert ("10 h", "2780 h", "90 min") == (seconds(36_000.0), seconds(1e7), figure("5400000ms"))
    assert ("1 GPU", "8 GPUs", "0 GPUs") == (counted(1, "GPU"), counted(8, "GPU"), counted(0, "GPU"))
    assert "2027-01-15T08:00:00Z" == moment("2027-01-15T08:00:00.123456Z")


@pytest.mark.parametrize("text", ["InferencePool/chat", "wpool/chat", "inferencepools.weft.dev/chat"])
def test_a_resource_is_named_as_kubectl_names_it(text: str) -> None:
    assert ("InferencePool", "chat") == parse_reference(text)


def test_a_bare_name_is_answered_with_what_to_write() -> None:
    with pytest.raises(CommandFailure, match=r"write InferencePool/chat or PDSplit/chat$"):
        parse_reference("chat")
    with pytest.raises(CommandFailure, match=r"write InferencePool/NAME or PDSplit/NAME$"):
        parse_reference("pod/chat")
