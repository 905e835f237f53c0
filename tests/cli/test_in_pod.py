"""The commands that read a cluster, in the operator's pod: with its service account, and what its role allows."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from aiohttp import web

from tests.cli.statuses import decided
from tests.cli.terminal import node, pool, split, weft, written
from tests.manifests import load
from tests.protocol.scripted_server import POOLS, SPLITS, WEFT, ScriptedServer
from weft.cli.cluster.reading import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.protocol.scripted_server import Received

Json = dict[str, Any]

TEAM = f"{WEFT}/namespaces/team"
# /apis/GROUP/VERSION or /api/v1, then perhaps namespaces/NAME, then the kind and perhaps a name
PATH = re.compile(r"/apis?(?:/(?P<group>[^/]+\.[^/]+))?/v\w+(?:/namespaces/[^/]+)?/(?P<plural>[^/]+)(?P<named>/[^/]+)?")
DISCOVERY = re.compile(r"/apis?(/[^/]+\.[^/]+)?(/v\w+)?")  # of which everybody may know
COMMANDS = (
    ("explain", "PDSplit/reasoner", "-n", "team", "--domains"),
    ("explain", "InferencePool/chat", "-n", "team", "--domains"),
    ("top", "-A"),
    ("top", "-n", "team"),
    ("fabric",),
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A cluster with a node, a pool and a split, to which KUBECONFIG leads."""
    with ScriptedServer() as running:
        for path, body in ((POOLS, pool()), (SPLITS, split())):
            name = body["metadata"]["name"]
            status = decided(body, ready=False, now=time.time())
            running.put(path, name, spec=body["spec"], status=status)
            running.put(f"{TEAM}/{path.rpartition('/')[2]}", name, spec=body["spec"], status=status)
        board = node("board")
        running.put(
            "/api/v1/nodes", "board", spec=board.get("spec", {}), status=board["status"], metadata=board["metadata"]
        )
        for version, plural in (("kueue.x-k8s.io/v1beta2", "topologies"), ("resource.k8s.io/v1", "resourceslices")):
            running.serve(version, plural)
        running.answer = single(running)
        monkeypatch.setenv("KUBECONFIG", leading_to(running.url, tmp_path))
        yield running


def single(server: ScriptedServer) -> Callable[[web.Request], web.Response | None]:
    """Answers requests for one object, of what the lists have."""

    def answer(request: web.Request) -> web.Response | None:
        collection, _, name = request.path.rpartition("/")
        body = server._objects.get(collection, {}).get(name)
        return None if body is None else web.json_response(body)

    return answer


def leading_to(url: str, folder: Path) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    return written(folder / "kubeconfig", content)


def granted() -> set[tuple[str, str, str]]:
    """(verb, group, plural) of the shipped roles of the operator."""
    return {
        (verb, group, plural)
        for role in load("base")
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


def needed(asked: Received) -> tuple[str, str, str]:
    found = PATH.fullmatch(asked.path)
    assert found, asked.path
    assert asked.method == "GET"
    return "get" if found["named"] else "list", found["group"] or "", found["plural"]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_shipped_role_allows_what_a_command_asks_for(server: ScriptedServer, command: tuple[str, ...]) -> None:
    ending = weft(*command)
    assert ending.code in {0, 1}, ending.err
    asked = {needed(each) for each in server.requests if not DISCOVERY.fullmatch(each.path)}
    assert asked - granted() == set()
    reads = {plural for _, _, plural in asked}
    assert reads >= {"top": {"inferencepools", "pdsplits"}}.get(command[0], {"nodes", "pods", "resourceslices"})


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service account, in a pod without a kubeconfig; nothing is in it yet."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    monkeypatch.setattr("weft.cli.cluster.kubeconfig._TOKEN", token)
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(authority))
    return tmp_path


def test_a_pod_uses_its_service_account(mounted: Path) -> None:
    (mounted / "token").write_text("t")
    (mounted / "ca.crt").write_text(Path(certifi.where()).read_text(encoding="ascii"))
    ending = weft("explain", "PDSplit/reasoner", "-n", "team")
    assert "https://127.0.0.1:1 does not answer (Connection refused)" in ending.sentence
    assert ending.code == 3


@pytest.mark.parametrize(
    ("content", "namespace"), [("weft-system\n", "weft-system"), ("", "default"), (None, "default")]
)
def test_a_pod_reads_its_own_namespace_unless_told_another(mounted: Path, content: str | None, namespace: str) -> None:
    """As kubectl does."""
    (mounted / "token").write_text("t")
    (mounted / "ca.crt").write_text(Path(certifi.where()).read_text(encoding="ascii"))
    if content is not None:
        (mounted / "namespace").write_text(content)
    assert namespace == connect(None, None).namespace
    assert connect(None, "team").namespace == "team"


def test_a_pod_without_a_token_is_told_what_it_lacks(mounted: Path) -> None:
    ending = weft("explain", "PDSplit/reasoner", "-n", "team")
    assert f"there is no kubeconfig at {mounted / 'home' / '.kube' / 'config'}" in ending.sentence
    assert f"this pod has no service account token at {mounted / 'token'}" in ending.sentence
    assert "automountServiceAccountToken" in ending.sentence
    assert ending.code == 3


@pytest.mark.parametrize(
    ("token", "words"), [("", "Token file exists but empty"), ("t", "Service certification file does not exist")]
)
def test_a_service_account_that_is_mounted_in_part_is_refused_in_a_sentence(
    mounted: Path, token: str, words: str
) -> None:
    (mounted / "token").write_text(token)
    ending = weft("explain", "PDSplit/reasoner", "-n", "team")
    assert f"the service account of this pod cannot be used ({words}" in ending.sentence
    assert ending.code == 3
