"""What the API server would refuse, `weft plan` refuses too, naming the field and what is allowed."""

from __future__ import annotations

import json
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.terminal import node, pod, pool, split, weft, written
from tests.yardstick import assert_no_steeper
from weft.cli.files.resources import the_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Json = dict[str, Any]


@pytest.mark.parametrize("name", ["чат", "CHAT_x", "8b", "a" * 80, "chat.eu"])
def test_a_name_that_no_resource_may_have_is_refused(tmp_path: Path, name: str) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool(name)))
    assert f"InferencePool/{name}: metadata.name must be a DNS label" in ending.sentence
    assert "at most 45 characters" in ending.sentence
    assert (ending.code, ending.out) == (2, "")


@pytest.mark.parametrize("labels", [["a"], {"team": 5}, {"on": True}, "team=a"])
@pytest.mark.parametrize("key", ["labels", "annotations"])
def test_labels_that_the_api_server_would_refuse_are_refused(tmp_path: Path, key: str, labels: object) -> None:
    body = {**pool(), "metadata": {"name": "chat", key: labels}}
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", body))
    assert f"InferencePool/chat: metadata.{key} must be an object of strings: quote numbers" in ending.sentence
    assert 2 == ending.code


def test_a_namespace_that_cannot_be_is_refused(tmp_path: Path) -> None:
    body = {**pool(), "metadata": {"name": "chat", "namespace": "A B"}}
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", body))
    assert "'A B' is no name of a namespace" in ending.sentence
    assert 2 == ending.code


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"modle": {"id": "a/b"}}, "spec.modle: unknown field, perhaps model; the known ones are"),
        ([], "spec: must be an object"),
        ("chat", "spec: must be an object"),
        (
            {"model": {"id": "a/b"}, "workload": {"requestsPerSecond": "1e24"}},
            "spec.workload.requestsPerSecond: must be at most 1000000 requests per second",
        ),
    ],
    ids=["a misspelt field", "a list", "a text", "an absurd rate"],
)
def test_a_wrong_spec_is_told_by_what_is_wrong_and_not_by_what_follows(
    tmp_path: Path, spec: object, words: str
) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", {**pool(), "spec": spec}))
    assert words in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_a_pin_of_one_side_is_named_where_the_split_has_it(tmp_path: Path) -> None:
    body = split()
    body["spec"]["prefill"] = {"shape": {"tensorParallel": 3}}
    ending = weft("plan", "-f", written(tmp_path / "split.yaml", body))
    assert "ShapeInvalid: spec.prefill.shape.tensorParallel 3: TP 3 does not divide" in ending.out
    assert 1 == ending.code


TWICE_IN_YAML = "apiVersion: weft.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: a}\nmetadata: {name: b}\n"
TWICE_IN_JSON = '{"apiVersion": "weft.dev/v1alpha1",\n "kind": "InferencePool", "metadata": {"name": "a", "name": "b"}}'


@pytest.mark.parametrize(
    ("content", "where"),
    [(TWICE_IN_YAML, "line 4, column 1: key 'metadata'"), (TWICE_IN_JSON, "line 2, column 53: key 'name'")],
    ids=["yaml", "json"],
)
def test_a_key_that_is_there_twice_is_refused_with_its_line(content: str, where: str) -> None:
    """Of two values either could be meant."""
    ending = weft("plan", "-f", "-", stdin=content)
    assert f"standard input cannot be understood: {where} appears twice: give it once" in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_what_a_merge_key_brings_in_may_be_there_again() -> None:
    merged = json.dumps(pool()["spec"])
    text = f"kind: ConfigMap\napiVersion: v1\nbase: &base {merged}\n---\n"
    whole = (
        "apiVersion: weft.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: a}\n"
        f"spec:\n  <<: &base {merged}\n  workload: {{requestsPerSecond: 3}}\n"
    )
    ending = weft("plan", "-f", "-", stdin=text + whole)
    assert 0 == ending.code, ending.err
    assert "for 3 requests/s" in ending.out


def test_a_time_needs_no_quotes() -> None:
    """As in kubectl, which reads every time as text."""
    text = yaml.safe_dump(pool(scaling={"freezeUntil": "T"})).replace(
        "freezeUntil: T", "freezeUntil: 2026-07-01T08:00:00Z"
    )
    ending = weft("plan", "-f", "-", stdin=text)
    assert 0 == ending.code, ending.err


def test_several_files_are_planned_together(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.yaml", pool(name)) for name in ("a", "b")]
    ending = weft("plan", "-f", files[0], "-f", files[1])
    assert "InferencePool/a" in ending.out
    assert "InferencePool/b" in ending.out


def _with(body: Json, **members: object) -> Json:
    return {**body, **members}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "Node"}, "Node in object 2 of FILE: metadata must be an object"),
        (_with(node("b"), metadata=[1]), "Node in object 2 of FILE: metadata must be an object"),
        (_with(node("b"), metadata={}), "Node in object 2 of FILE: metadata.name must be a string"),
        (_with(node("b"), metadata={"name": "b", "labels": {"a": 5}}), "metadata.labels must be an object of strings"),
        (_with(node("b"), spec=7), "Node b in object 2 of FILE: spec must be an object"),
        (_with(node("b"), spec={"taints": 7}), "spec.taints must be a list of objects"),
        (_with(node("b"), spec={"taints": [{"effect": "NoSchedule"}]}), "spec.taints.key must be a string"),
        (_with(node("b"), status={"capacity": "8"}), "status.capacity must be an object of amounts"),
        (_with(node("b"), status={"conditions": {"Ready": True}}), "status.conditions must be a list of objects"),
        (_with(pod("p", "a", 1), metadata={"name": "p", "uid": "u"}), "Pod p in object 2 of FILE: metadata.namespace"),
        (_with(pod("p", "a", 1), spec={"containers": "main"}), "spec.containers must be a list of objects"),
        (_with(node("b"), status={"conditions": [{"type": {}}]}), "status.conditions.type must be a string"),
        (
            _with(node("b"), metadata={"name": "b", "managedFields": [{"fieldsV1": 5}]}),
            "managedFields.fieldsV1 must be",
        ),
        (_with(pod("p", "a", 1), spec={"nodeName": ["a"]}), "spec.nodeName must be a string"),
        (_with(pod("p", "a", 1), spec={"priority": {}}), "spec.priority must be a whole number"),
        (_with(pod("p", "a", 1), spec={"initContainers": [{"resources": "x"}]}), "spec.initContainers.resources must"),
        (
            _with(pod("p", "a", 1), status={"containerStatuses": [{"name": "e", "lastState": {"terminated": 1}}]}),
            "status.containerStatuses.lastState.terminated must be an object",
        ),
        (
            _with(pod("p", "a", 1), metadata={"name": "p", "namespace": "t", "uid": "u", "creationTimestamp": 5}),
            "metadata.creationTimestamp must be a time such as 2026-05-01T12:00:00Z",
        ),
        (
            _with(pod("p", "a", 1), spec={"containers": [{"resources": {"limits": 3}}]}),
            "spec.containers.resources.limits must be an object of amounts",
        ),
    ],
)
def test_a_fabric_that_no_cluster_wrote_is_told_by_object_and_field(tmp_path: Path, body: Json, words: str) -> None:
    file = written(tmp_path / "nodes.yaml", node("a"), body)
    for ending in (
        weft("fabric", "-f", file),
        weft("plan", "-f", written(tmp_path / "pool.yaml", pool()), "--fabric", file),
    ):
        assert words.replace("FILE", file) in ending.sentence
        assert ending.sentence.endswith(", as `kubectl get nodes,pods -A -o yaml` prints it")
        assert (ending.code, ending.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--prometheus-url", "ftp://x"), "'ftp://x' is no URL of a Prometheus"),
        (
            ("run", "--allow-relaxation", "HostNetwork"),
            "'HostNetwork' cannot be allowed: IPCLock or RunAsRoot or WritableRoot",
        ),
        (("run", "--prometheus-url", "http://"), "'http://' is no URL of a Prometheus"),
        (("run", "--prometheus-url", "http://x:port"), "'http://x:port' is no URL of a Prometheus"),
        (("run", "--namespace", "A B"), "'A B' is no name of a namespace"),
        (("run", "--namespace", "a", "-n", "b-"), "'b-' is no name of a namespace"),
        (("run", "--host", "999.1.1.1"), "'999.1.1.1' is no address"),
        (("run", "--host", ""), "'' is no address"),
        (("run", "--tick", "inf"), "'inf' is no time: write seconds"),
        (("run", "--tick", "2h"), "'2h' is too long: give at most 60 min"),
        (("run", "--resync", "500ms"), "'500ms' is too short: give at least 1 s"),
        (("top", "--interval", "-2"), "'-2' is no time"),
        (("run", "--writes-per-second", "0"), "must be greater than or equal to 1"),
        (("run", "--burst-writes", "0"), "must be greater than or equal to 1"),
        (("explain", "wpool/a", "-n", "A"), "'A' is no name of a namespace"),
        (("top", "-n", "-"), "'-' is no name of a namespace"),
        (("plan", "-f", "-", "-o", "xml"), "'--output' / '-o': 'xml' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_that_cannot_be_is_refused_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    """Without a kubeconfig: nothing was looked at yet."""
    monkeypatch.setenv("KUBECONFIG", "missing")
    ending = weft(*arguments)
    assert words in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_resources_of_a_file_are_told_apart_in_linear_time() -> None:
    def readings(count: int) -> Iterator[Callable[[], object]]:
        return repeat(partial(the_resources, [pool(name=f"p{index}") for index in range(count)], "default"))

    assert_no_steeper(readings(250), readings(2000), times=16)
