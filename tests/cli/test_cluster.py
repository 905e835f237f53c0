"""The commands that read a cluster, against a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.cli.terminal import node, pool, split, weft
from tests.eventually import eventually

if TYPE_CHECKING:
    import pytest

    from tests.cli.cluster import Place


def test_explain_answers_yes_only_once_it_is_ready(place: Place) -> None:
    place.create(pool())
    before = weft("explain", "wpool/chat", "-n", place.namespace)
    assert 1 == before.code
    assert "Does the operator run, and serve this namespace?" in before.out
    place.decide(pool(), ready=False)
    failing = weft("explain", "InferencePool/chat", "-n", place.namespace)
    assert 1 == failing.code
    assert "EngineFailed" in failing.out
    place.decide(pool(), ready=True)
    serving = weft("explain", "InferencePool/chat", "-n", place.namespace, "--context", "weft")
    assert (0, []) == (serving.code, serving.complaints)
    assert f"namespace {place.namespace}" in serving.out


def test_explain_of_what_does_not_exist_is_wrong_input(place: Place) -> None:
    ending = weft("explain", "pds/nothing", "-n", place.namespace)
    assert f"PDSplit nothing in namespace {place.namespace} does not exist" in ending.sentence
    assert 2 == ending.code


def test_top_lists_pools_and_splits(place: Place) -> None:
    assert "no InferencePool and no PDSplit in namespace" in weft("top", "-n", place.namespace).out
    for body in (pool(), split()):
        place.create(body)
        place.decide(body, ready=True)
    here = weft("top", "-n", place.namespace, "--once")
    assert 0 == here.code
    assert ["NAME", "reasoner", "chat"] == [row.split()[0] for row in here.out.splitlines()]
    assert place.namespace in weft("top", "-A").out


def test_fabric_and_plan_read_the_nodes_of_the_cluster(place: Place) -> None:
    name = f"{place.namespace}-board"
    place.add_node(node(name))
    try:
        assert f"{name}  H200  □□□□□□□□  8 of 8 free" in weft("fabric").out
        only_here = pool(placement={"nodeSelector": {"kubernetes.io/hostname": name}})

        def has_a_plan() -> None:
            """Once Kubernetes has taken the taint of a new node away."""
            planned = weft("plan", "-f", "-", "--context", "weft", stdin=yaml.safe_dump(only_here))
            assert f"replica 0  on {name}" in planned.out

        eventually(has_a_plan)
    finally:
        place.remove_node(name)


def test_a_user_without_rights_is_told_what_to_ask_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place.control_plane.kubeconfig_for_user(f"{place.namespace}-nobody")))
    for command, words in (
        (("fabric",), "you may not read nodes: ask for get and list on it"),
        (("top", "-n", place.namespace), "you may not read inferencepools.weft.dev"),
        (("explain", "wpool/chat", "-n", place.namespace), "you may not read InferencePool chat"),
    ):
        ending = weft(*command)
        assert words in ending.sentence
        assert 3 == ending.code


def test_a_stranger_is_told_to_log_in(
    place: Place, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(place.control_plane.kubeconfig.read_text())
    content["users"] = [{"name": "weft", "user": {"token": "forged"}}]
    file = tmp_path_factory.mktemp("stranger") / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", str(file))
    ending = weft("top")
    assert "does not know your credentials: log in again" in ending.sentence
    assert 3 == ending.code
