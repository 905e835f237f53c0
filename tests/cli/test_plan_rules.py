"""`weft plan` counts with the PriorityClasses and ResourceQuotas of its files, or of the cluster that it reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli.terminal import listed, node, pool, split, weft, written
from weft.cli.cluster.rules import rules_of
from weft.cli.cluster.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Ending
    from weft.observe.objects.reports import OptionalKind

Json = dict[str, Any]
GPUS = "requests.nvidia.com/gpu"
HIGH: Json = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


def quota(gpus: int) -> Json:
    """A quota of the namespace `default`."""
    hard = {"hard": {GPUS: str(gpus)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": hard}


def two_replicas(name: str, priority_class: str | None = None) -> Json:
    """A pool that takes two replicas of four GPUs."""
    body = pool(name, shape={"tensorParallel": 4}, scaling={"minReplicas": 2, "maxReplicas": 2})
    body["spec"] |= {"pod": {"priorityClassName": priority_class}} if priority_class else {}
    return body


def planned(folder: Path, *bodies: Json, boards: int = 1, beside: tuple[Json, ...] = ()) -> Ending:
    """What `weft plan` says of the resources on so many boards of eight."""
    nodes = listed(*(node(f"board-{index}") for index in range(boards)), *beside)
    return weft("plan", "-f", written(folder / "all.yaml", *bodies), "--fabric", written(folder / "nodes.yaml", nodes))


def data(folder: Path, *bodies: Json, boards: int = 1) -> list[Json]:
    """The pools of the only resource, as data."""
    nodes = written(folder / "nodes.yaml", listed(*(node(f"board-{index}") for index in range(boards))))
    ending = weft("plan", "-f", written(folder / "all.yaml", *bodies), "--fabric", nodes, "-o", "json")
    found: list[Json] = json.loads(ending.out)[0]["pools"]
    return found


def about(name: str, said: str) -> str:
    """The part of the answer that is about one pool."""
    return said.partition(f"InferencePool/{name}\n")[2].partition("InferencePool/")[0]


def test_the_pool_of_the_higher_class_gets_the_gpus(tmp_path: Path) -> None:
    ending = planned(tmp_path, two_replicas("a"), two_replicas("b", "high"), HIGH)
    assert (1, []) == (ending.code, ending.complaints)
    assert "2 replicas placed" in about("b", ending.out)
    assert "0 of 2 replicas placed" in about("a", ending.out)


def test_a_class_may_stand_beside_the_nodes(tmp_path: Path) -> None:
    ending = planned(tmp_path, two_replicas("a"), two_replicas("b", "high"), beside=(HIGH,))
    assert "2 replicas placed" in about("b", ending.out)


def test_a_class_that_is_nowhere_is_said_to_count_as_none(tmp_path: Path) -> None:
    ending = planned(tmp_path, two_replicas("b", "high"))
    assert "InferencePool/b names PriorityClass high, which is not known here and counts as 0" in ending.sentence
    assert 0 == ending.code


def test_a_quota_limits_what_is_planned_and_is_named(tmp_path: Path) -> None:
    ending = planned(tmp_path, two_replicas("a"), quota(6))
    assert 1 == ending.code
    said = " ".join(ending.out.split())
    assert "ResourceQuota team (requests.nvidia.com/gpu: 6) leaves room for 1 replica of 4 GPUs" in said
    assert "raise it by 2, or free as much" in said


def test_where_a_quota_stops_a_pool_below_its_rate_that_is_said(tmp_path: Path) -> None:
    body = pool("a", "meta-llama/Llama-3.3-70B-Instruct", shape={"tensorParallel": 4})
    body["spec"]["workload"] |= {"requestsPerSecond": 40}
    ending = planned(tmp_path, body, quota(8), boards=8)
    assert "of 40 requests/s" in ending.out.partition("they serve")[2].splitlines()[0]


def in_need() -> Json:
    """A pool of replicas of one GPU, whose rate takes three."""
    body = pool("a", shape={"tensorParallel": 1}, scaling={"maxReplicas": 8})
    body["spec"]["workload"] |= {"requestsPerSecond": 60}
    return body


def test_the_quota_that_cuts_a_count_is_named_beside_its_cost_at_the_declared_rate(tmp_path: Path) -> None:
    ending = planned(tmp_path, in_need(), quota(1))
    said = " ".join(ending.out.split())
    assert 1 == ending.code
    assert "Scale BudgetExhausted: ResourceQuota team (requests.nvidia.com/gpu: 1) leaves room for 1 replica" in said
    assert "for 3 GPUs (H100 = 1) at the declared rate" in said
    (told,) = data(tmp_path, in_need(), quota(1))
    assert "BudgetExhausted" == told["scale"]["reason"]
    assert "ResourceQuota team" in told["scale"]["message"]


def test_a_budget_that_is_not_met_or_that_placed_names_is_not_named_again(tmp_path: Path) -> None:
    enough = planned(tmp_path, in_need(), quota(3))
    assert 0 == enough.code
    assert "BudgetExhausted" not in enough.out
    assert "at the declared rate" not in enough.out
    assert 1 == planned(tmp_path, in_need(), quota(0)).out.count("BudgetExhausted")


def test_the_budget_of_a_half_is_named_as_its_user_wrote_it(tmp_path: Path) -> None:
    body = split()
    body["spec"]["workload"] |= {"requestsPerSecond": 400}
    body["spec"]["decode"] = {"scaling": {"maxReplicas": 8, "maxGPUs": 8}}
    _, decode = data(tmp_path, body, boards=9)
    assert decode["scale"]["message"].startswith("spec.decode.scaling.maxGPUs 8 allows")


def test_a_quota_of_zero_stops_both_halves_of_a_split(tmp_path: Path) -> None:
    ending = planned(tmp_path, split(), quota(0))
    assert 2 == ending.out.count("Placed False  BudgetExhausted")


class _Cluster:
    """A cluster with a class and a quota, which may be forbidden to read."""

    namespace = "default"

    def __init__(self, *, forbidden: bool = False) -> None:
        self._forbidden = forbidden

    def listed(self, what: str, path: str) -> list[Json]:
        assert "priorityclasses" in what
        assert path.endswith(what)
        return [HIGH]

    def optional(self, kind: OptionalKind) -> list[Json] | None:
        assert "ResourceQuota" == kind.kind
        body = quota(6)  # the items of a list carry no kind
        return None if self._forbidden else [{"metadata": {**body["metadata"], "namespace": "x"}, "spec": body["spec"]}]


def test_the_rules_of_a_cluster_are_read_from_it() -> None:
    found = rules_of([], World((), cluster=_Cluster()))  # type: ignore[arg-type]
    assert (1000, True) == found.classes["high"]
    assert [("x", "team", ((GPUS, 6),))] == [(each.namespace, each.name, each.hard) for each in found.quotas]


def test_quotas_that_may_not_be_read_limit_nothing() -> None:
    assert () == rules_of([], World((), cluster=_Cluster(forbidden=True))).quotas  # type: ignore[arg-type]
