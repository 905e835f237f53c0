"""A PDSplit behind a Gateway, with real vLLM: both halves serve, and it rolls without a pair of two generations.

Gateway and endpoint picker are played: requests go to a decode pod that the InferencePool selects, with the address of
a prefill pod that it selects too, as llm-d's picker sends them.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.node_engines import SIDECAR
from e2e.cluster.sidecar import PREFILL_HEADER
from e2e.cluster.waiting import eventually
from e2e.team import Endpoint
from e2e.test_split import PROMPT, prompt_tokens
from weft.domain import labels
from weft.render import SIDECAR_PORT

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

NAME = "edge"
ROUTER = {
    "type": "Gateway",
    "image": SIDECAR,
    "gateway": {"parentRefs": [{"name": "front"}], "endpointPickerRef": {"name": "picker"}},
}
TOKENS = 60


@dataclass
class Picker:
    """One request after another, each to pods that are selected as it is sent."""

    team: Team
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    pairs: list[frozenset[str]] = field(default_factory=list)  # generations of the two pods of each request
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._stop.is_set():
            try:
                self.send()
            except (OSError, ValueError, AssertionError) as error:
                self.failed.append(repr(error))

    def send(self) -> None:
        """A streamed completion: decode is asked, and told who computes the prompt."""
        chosen = self.chosen()
        assert chosen.keys() == {"prefill", "decode"}, f"the picker may choose {sorted(chosen)} only"
        self.pairs.append(frozenset(pod["metadata"]["labels"][labels.PAIR] for pod in chosen.values()))
        prefill, decode = (chosen[half]["status"]["podIP"] for half in ("prefill", "decode"))
        header = {PREFILL_HEADER: f"{prefill}:{SIDECAR_PORT}"}
        told = [*Endpoint(decode, SIDECAR_PORT).stream(PROMPT, TOKENS, header)]
        assert told[-1]["usage"]["completion_tokens"] == TOKENS
        self.answered += 1

    def chosen(self) -> dict[str, Json]:
        """The newest ready pod of each half that is selected."""
        endpoints = json.loads(
            self.team.kubectl("get", "inferencepools.inference.networking.k8s.io", NAME, "-o", "json")
        )
        selector = endpoints["spec"]["selector"]["matchLabels"]
        ready = (
            pod for pod in self.team.pods() if selector.items() <= pod["metadata"]["labels"].items() and serves(pod)
        )
        return {pod["metadata"]["labels"][labels.ROLE]: pod for pod in ready}

    def stop(self) -> None:
        """After the request that is under way."""
        self._stop.set()


def serves(pod: Json) -> bool:
    """Whether pickers take it for an endpoint."""
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def a_gateway_takes_the_route(team: Team) -> None:
    """As the controller of a Gateway would say it."""
    route = json.loads(team.kubectl("get", "httproute", NAME, "-o", "json"))
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": route["metadata"]["creationTimestamp"],
        "observedGeneration": route["metadata"]["generation"],
    }
    parent = {"parentRef": {"name": "front"}, "controllerName": "example.com/played", "conditions": [condition]}
    patch = json.dumps({"status": {"parents": [parent]}})
    team.kubectl("patch", "httproute", NAME, "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.timeout(900)
def test_a_split_behind_a_gateway_serves_and_rolls_whole(operator: OperatorProcess, team: Team) -> None:
    """KV comes over NIXL by what a picker names; a roll fails no request, and pairs no two generations."""
    assert operator.is_ready()
    body = team.split(NAME, router=ROUTER)
    team.apply(body)
    eventually(
        lambda: team.kubectl("get", "httproute", NAME, "-o", "name", "--ignore-not-found"),
        "the route is there",
        timeout_seconds=60,
    )
    a_gateway_takes_the_route(team)
    team.wait_for("pds", NAME, "Ready", seconds=420)
    picker = Picker(team)
    picker.send()
    metrics = Endpoint(picker.chosen()["decode"]["status"]["podIP"], 8000).metrics()
    assert prompt_tokens(metrics, "external_kv_transfer") >= 64
    assert prompt_tokens(metrics, "local_compute") == 0

    (before,) = picker.pairs[-1]
    client = threading.Thread(target=picker.run)
    client.start()
    try:
        body["spec"]["engine"]["args"] = [*body["spec"]["engine"]["args"], "--max-num-seqs=64"]
        team.apply(body)
        eventually(lambda: rolled(team, before), "both halves run the new arguments alone", timeout_seconds=420)
    finally:
        picker.stop()
        client.join()
    assert picker.failed == []
    assert all(len(pairs) == 1 for pairs in picker.pairs)
    assert {pair for pairs in picker.pairs for pair in pairs} > {before}
    assert picker.answered == len(picker.pairs)


def rolled(team: Team, before: str) -> bool:
    """Whether nothing of a generation is left, and another one is Ready."""
    found = {pod["metadata"]["labels"][labels.PAIR] for pod in team.pods()}
    return len(found) == 1 and before not in found and team.condition("pds", NAME, "Ready").get("status") == "True"
