"""`weft run --moves-per-hour`, from the command line through the loops to what the API server is asked to write."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from e2e.cluster.waiting import eventually
from e2e.operator_process import READY_SECONDS
from tests.cli.terminal import weft
from tests.holding.cluster import boards
from tests.holding.operation import Operation, pool_body
from tests.protocol.scripted_server import POOLS, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(200)  # a start of an operator, which a busy machine makes ten times as long

Json = dict[str, Any]
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
TURNS = 6  # until what was created serves
ON_B1 = {"accelerators": ["H200"], "nodeSelector": {"kubernetes.io/hostname": "b-1"}}


def two_halves() -> Operation:
    """Half of each of two boards is in use, and `large` asks for a whole one. `second` may be nowhere but on b-1."""
    operation = Operation.of(boards(2), pool_body("first", "H200", 4, 1))
    operation.turn(TURNS)
    operation.bodies["second"] = pool_body("second", "H200", 4, 1, placement=ON_B1)
    operation.turn(TURNS)
    assert [[("b-0",)], [("b-1",)]] == [operation.nodes_of(name) for name in ("first", "second")]
    operation.bodies["large"] = pool_body("large", "H200", 8, 1)
    return operation


class Cluster:
    """What an operator finds there, and the statuses that it writes."""

    def __init__(self, server: ScriptedServer, operation: Operation) -> None:
        self.server, self._bodies = server, operation.bodies
        listed = ((NODES, operation.cluster.nodes), (PODS, operation.cluster.pods), (POOLS, operation.bodies))
        for path, objects in listed:
            for name, body in objects.items():
                meta = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
                server.put(path, name, uid=meta["uid"], **{**body, "metadata": meta})
        server.answer = self._refuse

    def _refuse(self, request: web.Request) -> web.Response | None:
        """Nothing is found by its name, and every write comes too late: all decisions are made on the same state."""
        if request.method == "GET" and "/namespaces/" not in request.path:
            return None
        code = 404 if request.method == "GET" else 409
        return web.json_response({"kind": "Status", "code": code}, status=code)

    def written(self, name: str) -> Json:
        """The status of a pool as deciding last tried to write it; empty while it did not."""
        path = f"/namespaces/team/inferencepools/{name}/status"
        found = [each.body for each in self.server.requests if each.method == "PATCH" and each.path.endswith(path)]
        statuses = (json.loads(body)["status"] for body in reversed(found))
        return next((status for status in statuses if "assignments" in status or "desiredReplicas" in status), {})

    def placed(self, name: str) -> str:
        """What its condition says."""
        conditions = self.written(name).get("conditions", ())
        return next((each["message"] for each in conditions if each["type"] == "Placed"), "")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ScriptedServer() as server:
        yield Cluster(server, two_halves())


@contextmanager
def operator(cluster: Cluster, folder: Path, *options: str) -> Iterator[None]:
    """`weft run` as a process of its own."""
    me = {"name": "me", "user": {"token": "any"}}
    named = {"name": "here", "cluster": {"server": cluster.server.url}}
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    config = {"clusters": [named], "contexts": [context], "current-context": "here", "users": [me]}
    (folder / "config").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}), encoding="utf-8")
    command = [sys.executable, "-m", "weft.cli", "run", "--kubeconfig", str(folder / "config"), "--plain-logs"]
    listen = ["--host", "127.0.0.1", "--port", "0"]
    with (folder / "log").open("wb") as log, subprocess.Popen([*command, *listen, *options], stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


def test_a_budget_on_the_command_line_begins_a_move(cluster: Cluster, tmp_path: Path) -> None:
    """The replica that moves gets its successor in the same decision, and who waits says for whom."""
    with operator(cluster, tmp_path, "--moves-per-hour=1", f"--record={tmp_path / 'records'}"):
        eventually(lambda: cluster.written("first").get("moves"), "a move is begun", timeout_seconds=READY_SECONDS)
        moved = cluster.written("first")
        assert ["team/large"] == [each["makesRoomFor"] for each in moved["moves"]]
        assert [["b-0"], ["b-1"]] == [each["nodes"] for each in moved["assignments"]]
        waits = "waits for replica 0 of team/first to move away"
        eventually(lambda: waits in cluster.placed("large"), "who waits says so")
        eventually(lambda: any((tmp_path / "records").glob("pass-*.json.gz")), "what was written is recorded")
    replayed = weft("replay", str(tmp_path / "records"))
    assert (0, "") == (replayed.code, replayed.err)
    assert "replayed, all decided as recorded" in replayed.out


def test_without_a_budget_the_move_is_only_told(cluster: Cluster, tmp_path: Path) -> None:
    """The default is that nothing moves."""
    with operator(cluster, tmp_path):
        eventually(
            lambda: "moves are off" in cluster.placed("large"), "it says what would help", timeout_seconds=READY_SECONDS
        )
        assert "moving replica 0 of team/first from b-0 to b-1 would make room" in cluster.placed("large")
        assert "moves" not in cluster.written("first")
