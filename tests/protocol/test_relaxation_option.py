"""`weft run --allow-relaxation`, from the command line to what the API server is asked to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from e2e.operator_process import READY_SECONDS
from tests.holding.cluster import boards
from tests.holding.operation import Operation, pool_body
from tests.protocol.scripted_server import ScriptedServer
from tests.protocol.test_moves_option import Cluster, operator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(200)  # a start of an operator, which a busy machine makes ten times as long


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    operation = Operation.of(boards(1))
    operation.bodies["chat"] = pool_body("chat", "H200", 1, 1, pod={"relaxations": ["RunAsRoot"]})
    with ScriptedServer() as server:
        yield Cluster(server, operation)


def conditions(cluster: Cluster) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in cluster.written("chat").get("conditions", ())}


def test_a_word_on_the_command_line_allows_it(cluster: Cluster, tmp_path: Path) -> None:
    with operator(cluster, tmp_path, "--allow-relaxation=RunAsRoot"):
        eventually(lambda: "Relaxed" in conditions(cluster), "the pool is decided on", timeout_seconds=READY_SECONDS)
        assert conditions(cluster)["Relaxed"] == ("True", "RelaxationAllowed")
        assert [["b-0"]] == [each["nodes"] for each in cluster.written("chat")["assignments"]]


def test_without_it_the_pool_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    with operator(cluster, tmp_path):
        eventually(lambda: "Planned" in conditions(cluster), "the pool is decided on", timeout_seconds=READY_SECONDS)
        assert conditions(cluster)["Planned"] == ("False", "RelaxationNotAllowed")
        assert "assignments" not in cluster.written("chat")
