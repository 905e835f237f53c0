"""A PDSplit on a real kubelet: prefill hands its KV cache to decode over real NIXL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY
from e2e.team import Endpoint

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from e2e.team import Team

PROMPT = "A long enough prompt that prefill has something to hand over: " * 4


@pytest.mark.timeout(900)
def test_a_split_answers_and_its_prompt_came_over_nixl(operator: OperatorProcess, team: Team) -> None:
    """The decode pod's own metrics count the prompt tokens that it did not compute."""
    assert operator.is_ready()
    team.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "router"))
    team.apply(team.split("pair"))
    team.wait_for("pds", "pair", "Ready", seconds=420)
    front = Endpoint(*team.service_address("pair"))

    def answered() -> bool:
        return bool(front.complete(PROMPT, max_tokens=4)["usage"]["completion_tokens"] == 4)

    eventually(answered, "a completion through the front", timeout_seconds=60)
    (decode,) = team.pods("pair-decode")
    metrics = Endpoint(decode["status"]["podIP"], 8000).metrics()
    assert prompt_tokens(metrics, "external_kv_transfer") >= 64
    assert prompt_tokens(metrics, "local_compute") == 0
    versions = {team.get("wpool", f"pair-{side}")["status"]["engine"]["version"] for side in ("prefill", "decode")}
    assert len(versions) == 1


def prompt_tokens(metrics: str, source: str) -> float:
    """Prompt tokens that an engine took from one source, by its own count."""
    pattern = rf'^vllm:prompt_tokens_by_source_total{{.*source="{source}"}} (\S+)$'
    (value,) = re.findall(pattern, metrics, re.MULTILINE)
    return float(value)
