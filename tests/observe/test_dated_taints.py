"""Since when a node has its taints, as the API server itself keeps it: no process has to remember it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import eventually
from weft.apply import Sender, TokenBucket
from weft.apply.sending import ApiRequest
from weft.domain.texts.times import known_instant
from weft.observe.objects.records import read_node

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane

Json = dict[str, Any]
SPOT = {"key": "aws-node-termination-handler/spot-itn", "value": "id", "effect": "NoSchedule"}
OTHER = {"key": "team/other", "effect": "NoSchedule"}
PATH = "/api/v1/nodes/going"
PATCH = "application/strategic-merge-patch+json"
# With a label, as every kubelet sets some: an object in which its maker owns nothing has no owners ever after.
GOING = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "going", "labels": {"kubernetes.io/os": "linux"}}}
NOTED = "2026-01-01T00:00:10Z"


def written(by: str, at: str | None, *fields: str, subresource: str = "") -> Json:
    """What a manager owns of a node's spec."""
    entry = {"manager": by, "operation": "Update", "fieldsV1": {"f:spec": {f"f:{name}": {} for name in fields}}}
    return entry | ({"time": at} if at else {}) | ({"subresource": subresource} if subresource else {})


def tainted(*managed: Json, taints: tuple[Json, ...] = (SPOT,)) -> float | None:
    return read_node({"metadata": {"name": "n", "managedFields": list(managed)}, "spec": {"taints": taints}}).tainted


def test_it_is_when_whoever_owns_the_list_wrote_last() -> None:
    kubelet = written("kubelet", "2026-01-01T00:00:00Z", "podCIDR")
    other = written("kubelet", "2026-01-01T00:00:01Z", "taints", subresource="status")
    assert known_instant(NOTED) == tainted(kubelet, other, written("handler", NOTED, "taints", "unschedulable"))


@pytest.mark.parametrize("managed", [(), (written("kubelet", NOTED, "podCIDR"),), (written("old", None, "taints"),)])
def test_where_nobody_says_it_is_unknown(managed: tuple[Json, ...]) -> None:
    assert tainted(*managed) is None
    assert tainted(written("handler", NOTED, "taints"), taints=()) is None


class Node:
    """A node on a real API server, written to by several."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        made = sender.send(ApiRequest("POST", "/api/v1/nodes", (("fieldManager", "kubelet"),), GOING))
        assert made.ok, made.message
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        assert sender.send(ApiRequest("PATCH", f"{PATH}/status", (), ready, PATCH)).ok
        eventually(self.everybody_else_is_done)

    def everybody_else_is_done(self) -> None:
        """The controller manager takes away the taint of a node that is not ready."""
        assert "spec" not in self.body() or "taints" not in self.body()["spec"]

    def label(self, by: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {"edit": value}}}
        answer = self.sender.send(ApiRequest("PATCH", PATH, (("fieldManager", by),), patch, PATCH))
        assert answer.ok, answer.message

    def taint(self, by: str, *taints: Json) -> None:
        """As a client does that reads a node and writes all of it, again if somebody else was faster."""

        def once() -> None:
            body = self.body()
            body["spec"] = {**body.get("spec", {}), "taints": list(taints)}
            answer = self.sender.send(ApiRequest("PUT", PATH, (("fieldManager", by),), body))
            assert answer.ok, answer.message

        eventually(once)

    def body(self) -> Json:
        answer = self.sender.get(PATH)
        assert answer.ok, answer.message
        found: Json = answer.body
        return found

    def time_of(self, manager: str) -> float:
        entries = self.body()["metadata"]["managedFields"]
        return max(known_instant(each["time"]) or 0.0 for each in entries if each["manager"] == manager)


def test_a_real_api_server_dates_a_notice_and_edits_by_others_do_not_change_that(
    control_plane: ControlPlane,
) -> None:
    """Neither a label nor a heartbeat; whoever writes the taints once more does, and who wrote them with any edit."""
    with control_plane.api_client() as api:
        node = Node(Sender(api, TokenBucket(per_second=1000)))
        node.taint("handler", SPOT)
        noted = node.time_of("handler")
        assert noted == read_node(node.body()).tainted

        def another_edit_comes_later() -> None:
            node.label("operator", None)
            node.label("operator", "there")
            assert node.time_of("operator") > noted

        eventually(another_edit_comes_later)
        assert noted == read_node(node.body()).tainted

        def its_writer_edits_the_node_again() -> None:
            node.label("handler", None)
            node.label("handler", "again")
            assert node.time_of("handler") > noted

        eventually(its_writer_edits_the_node_again)
        assert node.time_of("handler") == read_node(node.body()).tainted
        node.taint("controller", SPOT, OTHER)
        assert node.time_of("controller") == read_node(node.body()).tainted
        assert node.time_of("controller") > noted
