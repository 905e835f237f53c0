"""`weft simulate` of several resources: one cluster's GPUs and quotas are shared, each has its own requests."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.terminal import half, listed, node, pod, pool, split, weft, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Ending

Json = dict[str, Any]
SHORT = "poisson:rate=1,seconds=60,isl=500,osl=50"
FULL = "poisson:rate=5,seconds=600,isl=16000,osl=200"
RISE = "step:from=1,to=6,at=200,seconds=600,isl=16000,osl=200"
SLO = {"ttft": {"p95": "5s"}, "tpot": {"p95": "100ms"}}
LIMIT = "requests.nvidia.com/gpu"


def long_prompts(name: str, rate: int, priority_class: str | None = None, namespace: str | None = None) -> Json:
    """A pool of which a replica has one GPU and serves one request a second."""
    lengths = {"inputTokens": {"mean": 16000}, "outputTokens": {"mean": 200}}
    body = pool(name, slo=SLO, workload={"requestsPerSecond": rate, **lengths}, scaling={"maxReplicas": 8})
    body["spec"] |= {"shape": {"tensorParallel": 1}}
    body["spec"] |= {"pod": {"priorityClassName": priority_class}} if priority_class else {}
    body["metadata"] |= {"namespace": namespace} if namespace else {}
    return body


def priority(name: str, value: object, **more: object) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def quota(gpus: object, namespace: str = "default", used: int | None = None, **spec: object) -> Json:
    status = {} if used is None else {"status": {"hard": {LIMIT: gpus}, "used": {LIMIT: used}}}
    meta = {"name": "gpus", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": {LIMIT: gpus}, **spec},
    } | status


@pytest.fixture(autouse=True)
def in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small pool and a split, two large pools of which one has priority, and two boards, also one alone."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "both.yaml", pool(), split())
    written(tmp_path / "rivals.yaml", long_prompts("batch", 4), long_prompts("chat", 1, "gold"), priority("gold", 9))
    written(tmp_path / "nodes.yaml", listed(node("board-0"), node("board-1")))
    written(tmp_path / "board.yaml", node("board-0"))


def simulated(*options: str, file: str = "both.yaml", fabric: str = "nodes.yaml") -> Ending:
    return weft("simulate", "-f", file, "--fabric", fabric, "--start-up", "60", *options)


def data(*options: str, **files: str) -> Any:  # noqa: ANN401 - JSON
    ending = simulated("-o", "json", *options, **files)
    assert ending.code == 0, ending.err
    found = json.loads(ending.out)
    for each in (found, *found.get("resources", ())) if isinstance(found, dict) else ():
        each.pop("wall_seconds")
    return found


def asked(**traces: str) -> list[str]:
    return [word for name, trace in traces.items() for word in ("--trace", f"{name}={trace}")]


BOTH = asked(chat=SHORT, reasoner=SHORT)
RIVALS = asked(batch=FULL, chat=RISE)


# what it answers


def test_every_resource_has_its_own_requests_and_figures_and_all_have_totals() -> None:
    found = data(*asked(chat=SHORT, reasoner="poisson:rate=2,seconds=90,isl=500,osl=50"))
    chat, reasoner = found["resources"]
    assert ["InferencePool/chat", "PDSplit/reasoner"] == [chat["resource"], reasoner["resource"]]
    assert ["Aggregated"] == [each["role"] for each in chat["pools"]]
    assert ["Prefill", "Decode"] == [each["role"] for each in reasoner["pools"]]
    assert 1.5 * chat["requests"] < reasoner["requests"]
    for name in ("requests", "completed", "failed", "gpu_hours", "oracle_gpu_hours", "cost", "replica_changes"):
        assert found[name] == pytest.approx(chat[name] + reasoner[name])
    assert chat["seconds"] == reasoner["seconds"] == found["seconds"] > 80.0
    assert (16, True, 1.0) == (found["gpus"], found["slo_met"], found["slo_attainment"])


def test_fields_of_a_resource_are_those_of_one_alone() -> None:
    alone = data("--pool", "chat", *asked(chat=SHORT))
    assert set(alone) <= set(data(*BOTH)["resources"][0])
    assert alone == data("--pool", "chat", "--trace", SHORT)


def test_a_name_may_have_its_kind_and_the_only_resource_needs_none(tmp_path: Path) -> None:
    first = data(*BOTH)
    assert first == data("--trace", f"PDSplit/reasoner={SHORT}", "--trace", f"InferencePool/chat={SHORT}")
    alone = written(tmp_path / "alone.yaml", pool())
    assert data("--trace", SHORT, file=alone) == data(*asked(chat=SHORT), file=alone)


def test_halves_that_a_cluster_lists_beside_their_split_are_no_resources_of_their_own(tmp_path: Path) -> None:
    """As `kubectl get inferencepools.weft.dev,pdsplits.weft.dev -o yaml` has them."""
    alone = written(tmp_path / "alone.yaml", split())
    dumped = written(tmp_path / "dumped.yaml", listed(half("reasoner-decode", of="reasoner"), split()))
    assert data("--trace", SHORT, file=alone) == data("--trace", SHORT, file=dumped)


def test_the_order_in_the_file_changes_no_figure(tmp_path: Path) -> None:
    documents = [long_prompts("chat", 1, "gold"), priority("gold", 9), long_prompts("batch", 4)]
    turned = written(tmp_path / "turned.yaml", *documents)
    forth = data(*RIVALS, file="rivals.yaml", fabric="board.yaml")["resources"]
    back = data(*asked(chat=RISE, batch=FULL), file=turned, fabric="board.yaml")["resources"]
    assert forth == back[::-1]


def test_two_resources_do_not_get_their_requests_at_the_same_moments(tmp_path: Path) -> None:
    file = written(tmp_path / "alike.yaml", pool("one"), pool("other"))
    one, other = data(*asked(one=SHORT, other=SHORT), file=file)["resources"]
    assert one["ttft_seconds"] != other["ttft_seconds"]


def test_a_file_of_requests_may_have_a_name_before_it(tmp_path: Path) -> None:
    (tmp_path / "a=b.csv").write_text("arrival_s,input_tokens,output_tokens\n1,9,9\n2,9,9\n")
    found = data(*asked(chat="a=b.csv", reasoner="none"))
    assert [2, 0] == [each["requests"] for each in found["resources"]]
    assert [True, None] == [each["slo_met"] for each in found["resources"]]
    assert 2 == data("--pool", "chat", "--trace", "a=b.csv")["requests"]


def test_a_pool_of_higher_priority_takes_gpus_of_a_lower_one() -> None:
    batch, chat = data(*RIVALS, file="rivals.yaml", fabric="board.yaml")["resources"]
    preempted = [each["message"] for each in batch["reasons"] if each["reason"] == "Preempted"]
    assert len(preempted) >= 3
    assert "to pool default/chat, of higher priority" in preempted[0]
    waited = next(each for each in chat["shortages"] if each["reason"] == "Preempting")
    assert "pods of pool default/batch, of lower priority" in waited["message"]
    assert 200.0 < waited["at_seconds"] < waited["until_seconds"] < 400.0


def test_a_class_of_the_fabric_counts_and_one_that_never_preempts_takes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "rivals.yaml", long_prompts("batch", 4), long_prompts("chat", 1, "gold"))
    for policy, takes in (("PreemptLowerPriority", True), ("Never", False)):
        gold = priority("gold", 9, preemptionPolicy=policy)
        fabric = written(tmp_path / "cluster.yaml", listed(node("board-0"), gold))
        batch = data(*RIVALS, file=file, fabric=fabric)["resources"][0]
        assert takes == any(each["reason"] == "Preempted" for each in batch["reasons"])


def test_a_split_takes_gpus_by_the_class_of_its_pods(tmp_path: Path) -> None:
    pair = long_prompts("pair", 1, "gold") | {"kind": "PDSplit"}
    file = written(tmp_path / "rivals.yaml", long_prompts("batch", 4), pair, priority("gold", 9))
    batch, _ = data(*asked(batch=FULL, pair=RISE), file=file, fabric="board.yaml")["resources"]
    preempted = [each["message"] for each in batch["reasons"] if each["reason"] == "Preempted"]
    assert any("gives its place to pool default/pair-" in each for each in preempted)


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (quota(5), 5),
        (quota(9, used=4), 5),
        (quota(5, "elsewhere"), 16),
        (quota(5, scopes=["BestEffort", "Terminating"]), 16),
    ],
    ids=["of all", "what others use", "another namespace", "other pods"],
)
def test_a_quota_bounds_the_sum(tmp_path: Path, limit: Json, most: int) -> None:
    file = written(tmp_path / "quota.yaml", long_prompts("batch", 4), long_prompts("chat", 1), limit)
    found = data(*RIVALS, file=file)
    assert found["most_gpus_held"] <= most
    named = [each for one in found["resources"] for each in one["shortages"] if each["reason"] == "BudgetExhausted"]
    assert bool(named) == (most == 5)
    assert all(f"ResourceQuota gpus ({LIMIT}: {limit['spec']['hard'][LIMIT]})" in each["message"] for each in named)


def test_a_quota_without_a_status_counts_the_pods_of_the_fabric(tmp_path: Path) -> None:
    fabric = written(tmp_path / "cluster.yaml", listed(node("board-0"), node("board-1"), pod("training", "board-0", 3)))
    bodies = [long_prompts(name, rate, None, "team") for name, rate in (("batch", 4), ("chat", 1))]
    file = written(tmp_path / "quota.yaml", *bodies, quota(8, "team"))
    assert 5 == data(*RIVALS, file=file, fabric=fabric)["most_gpus_held"]


def test_a_quota_of_the_fabric_bounds_one_resource_too(tmp_path: Path) -> None:
    fabric = written(tmp_path / "cluster.yaml", listed(node("board-0"), node("board-1"), quota(2, used=0)))
    found = data("--pool", "chat", "--trace", RISE, file="rivals.yaml", fabric=fabric)
    assert 2 == found["pools"][0]["most_replicas_ready"]


def test_the_least_is_of_no_more_replicas_than_a_quota_pays_for(tmp_path: Path) -> None:
    body = pool(shape={"tensorParallel": 1}, scaling={"minReplicas": 3, "maxReplicas": 3})
    found = data("--trace", SHORT, file=written(tmp_path / "few.yaml", body, quota(1)))
    assert 1 == found["pools"][0]["most_replicas_ready"]
    assert found["gpu_hours"] >= found["oracle_gpu_hours"]


def test_what_if_is_for_all_or_for_one() -> None:
    chat, reasoner = data(*BOTH, "--what-if", "spec.slo.ttft.p90=3s", "--what-if", "chat.spec.slo.tpot.p90=1s")[
        "resources"
    ]
    assert {"p90": 3.0} == chat["slo"]["ttft_seconds"] == reasoner["slo"]["ttft_seconds"]
    assert [{"p90": 1.0}, {}] == [chat["slo"]["tpot_seconds"], reasoner["slo"]["tpot_seconds"]]


def test_what_if_of_two_resources_may_give_one_field_to_each() -> None:
    chat, reasoner = data(
        *BOTH, "--what-if", "chat.spec.slo.ttft.p90=3s", "--what-if", "reasoner.spec.slo.ttft.p90=4s"
    )["resources"]
    assert [{"p90": 3.0}, {"p90": 4.0}] == [chat["slo"]["ttft_seconds"], reasoner["slo"]["ttft_seconds"]]


def test_a_node_fails_for_all() -> None:
    found = data(*BOTH, "--fail", "board-0@30s", "--fail", "board-1@30s")
    assert found["failed"] == sum(each["failed"] for each in found["resources"])
    assert all(each["failed"] > 0 for each in found["resources"])
    assert [["board-0", "board-1"]] * 2 == [[one["node"] for one in each["faults"]] for each in found["resources"]]


def test_each_policy_sizes_the_pools_of_every_resource() -> None:
    found = data(*BOTH, "--policy", "weft", "--policy", "static")
    assert [["weft"] * 2, ["static"] * 2] == [[one["policy"] for one in each["resources"]] for each in found]
    assert found[0]["requests"] == found[1]["requests"]


def test_resources_of_one_name_are_told_by_their_namespaces(tmp_path: Path) -> None:
    file = written(tmp_path / "twins.yaml", *(long_prompts("chat", 1, None, place) for place in ("here", "there")))
    names = [f"--trace={place}/InferencePool/chat={SHORT}" for place in ("here", "there")]
    found = data(*names, file=file)
    assert ["here/InferencePool/chat", "there/InferencePool/chat"] == [each["resource"] for each in found["resources"]]
    assert_refused(simulated("--trace", f"chat={SHORT}", file=file), "may be here/InferencePool/chat or there/")


# for people


def test_a_table_has_a_row_for_each_and_one_for_all_and_says_who_had_too_little() -> None:
    ending = simulated(*RIVALS, file="rivals.yaml", fabric="board.yaml")
    assert ending.code == 0, ending.err
    assert "2 resources on 8 GPUs" in ending.out
    for row in ("InferencePool/batch", "InferencePool/chat", "all"):
        assert re.search(rf"^{row} +\d+\.\d %", ending.out, re.MULTILINE)
    assert "at most 8 of 8 GPUs were held" in ending.out
    assert re.search(r"0:03:\d\d to 0:0\d:\d\d +InferencePool/chat +Preempting, ", ending.out)


def test_a_page_has_a_part_for_each_and_the_reasons_of_all(tmp_path: Path) -> None:
    data(
        *RIVALS,
        "--policy",
        "weft",
        "--policy",
        "static",
        "--html",
        "page.html",
        file="rivals.yaml",
        fabric="board.yaml",
    )
    page = (tmp_path / "page.html").read_text()
    assert ["InferencePool/batch", "InferencePool/chat"] == re.findall(r'id="resource-\d"><i [^>]*></i>([^<]*)', page)
    assert "of higher priority" in page
    assert "GPUs under static" in page
    for lane in ("batch weft", "batch static", "chat weft", "chat static"):
        assert f">{lane}</text>" in page
    assert not re.search(r'(src|href)="(?!#)', page)
    told = json.loads(re.search(r'id="read">(.*?)</script>', page)[1])["told"]  # type: ignore[index]
    assert len(told) == page.count("<figure>")
    assert "chat" in told[0][0]
    assert [] == told[3]


# what it refuses


def test_a_resource_without_requests_is_said_to_have_none() -> None:
    said = simulated(*asked(chat=SHORT, reasoner="none")).out
    assert "no requests" in [line.strip() for line in said.splitlines()]
    assert "at once" not in said


WRONG = {
    "no name": (
        ("--trace", SHORT),
        "say with --pool which one the trace asks, or give each its own with --trace chat=TR",
    ),
    "a name of nothing": (asked(talk=SHORT), "talk is not among the resources: there is InferencePool/chat, PDSplit/r"),
    "a name twice": ((*BOTH, *asked(chat=SHORT)), "InferencePool/chat has two traces: give each resource one --trace"),
    "a name by its kind too": ((*BOTH, "--trace", f"InferencePool/chat={SHORT}"), "InferencePool/chat has two traces"),
    "one without": (
        asked(chat=SHORT),
        "PDSplit/reasoner has no trace: add --trace reasoner=TRACE, or reasoner=none to",
    ),
    "one that is left out": (
        ("--pool", "chat", *BOTH),
        "reasoner is not among the resources: there is InferencePool/ch",
    ),
    "nobody asks": (
        asked(chat="none", reasoner="none"),
        "no resource gets a request: give a trace to one of InferencePool/",
    ),
    "a trace that is none": (asked(chat="poisson:rate=x", reasoner=SHORT), "poisson: rate takes a number, not 'x'"),
    "a field of nothing": ((*BOTH, "--what-if", "talk.spec.model.id=x"), "--what-if 'talk' is not among the resources"),
    "a fault too late": ((*BOTH, "--fail", "board-0@2m"), "--fail 'board-0@2m' is too late"),
    "a long warm-up": ((*BOTH, "--warm-up", "90"), "--warm-up leaves nothing"),
    "the oracle": (
        (*BOTH, "--policy", "oracle"),
        "--policy oracle knows the requests of one resource: say with --pool",
    ),
    "standard input twice": (asked(chat="-", reasoner="-"), "standard input can be read once"),
}
WRONG_FILES = {
    "no resource": ((priority("gold", 9),), "there is no InferencePool and no PDSplit of weft.dev/v1alpha1"),
    "a class of no file": (
        (pool(pod={"priorityClassName": "gold"}), split()),
        "chat names PriorityClass gold, which is",
    ),
    "a class without a value": ((pool(), split(), priority("gold", "much")), "PriorityClass gold needs a whole number"),
    "a quota of words": (
        (pool(), split(), quota("many")),
        f"ResourceQuota gpus: {LIMIT} is 'many', which is no quantit",
    ),
    "a quota of strange scopes": (
        (pool(), split(), quota(8, scopes="Best")),
        "ResourceQuota gpus: its scopes are none",
    ),
    "a quota without a name": ((pool(), split(), quota(8) | {"metadata": {}}), "every ResourceQuota needs a name"),
    "a quota that holds no replica": (
        (pool(), split(), quota(0)),
        f"InferencePool/chat cannot run here: BudgetExhausted: ResourceQuota gpus ({LIMIT}: 0) leaves room for 0",
    ),
    "one that fits nowhere": ((pool(shape={"tensorParallel": 16}), split()), "InferencePool/chat cannot run here: "),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_one_sentence(options: tuple[str, ...], words: str) -> None:
    assert_refused(simulated(*options), words)


@pytest.mark.parametrize(("documents", "words"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, documents: tuple[Json, ...], words: str) -> None:
    file = written(tmp_path / "wrong.yaml", *documents)
    assert_refused(simulated(*BOTH, file=file), words)


def assert_refused(ending: Ending, words: str) -> None:
    assert (2, "") == (ending.code, ending.out)
    assert words in ending.sentence
