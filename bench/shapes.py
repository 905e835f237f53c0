"""`python -m bench.shapes`: write docs/shapes.md, the shapes that Weft picks for classes of applications.

Every figure is what `weft plan` says of an example, or of a small variation of one, on a fabric that stands in FABRICS.
The page is the same, byte for byte, whenever and wherever it is written, until the model or an example changes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.shape_cases import Application, Case, Fabric, Outcome, Pool, Rules
from bench.shapes_page import as_page
from weft.catalog import load
from weft.cli.files.reading import load_documents
from weft.cli.plan.planning import plan_all
from weft.domain.texts.figures import request_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.decision import PoolDecision
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "shapes.md"
_NOW = 0.0  # a plan from files does not depend on when it is made


H100, H200, B200 = Fabric("H100", 32), Fabric("H200", 32), Fabric("B200", 32)
GB200, MI300X = Fabric("GB200", 72), Fabric("MI300X", 32)
FABRICS = (H100, H200, B200, GB200, MI300X)
MANY_H200, RACKS = Fabric("H200", 64), Fabric("GB200", 64)


APPLICATIONS = (
    ("Chat", "chat-8b.yaml"),
    ("Summaries of long documents", "summarise-split.yaml"),
    ("Coding agent", "coding-agent.yaml"),
    ("Deep research", "deep-research-split.yaml"),
)
RATES = (20, 60, 160)
EXPERT_RATES = (1, 10, 40)
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct",
    "deepseek-ai/DeepSeek-V3",
)
LENGTHS = ((16000, 200), (6000, 600), (2000, 2000), (600, 6000))


def applications() -> tuple[Application, ...]:
    """Every example on every fabric."""
    return tuple(_application(title, file) for title, file in APPLICATIONS)


def rules() -> Rules:
    """The cases of the rules of thumb."""
    return Rules(
        replicas=tuple(outcome(_chat_at(rate)) for rate in RATES),
        sizes=tuple(outcome(_of_size(model, fabric)) for fabric in (H100, GB200) for model in MODELS),
        experts=tuple(outcome(_of_experts(rate, fabric)) for fabric in (MANY_H200, RACKS) for rate in EXPERT_RATES),
        lengths=tuple(outcome(_of_lengths(*lengths)) for lengths in LENGTHS),
    )


def outcome(case: Case) -> Outcome:
    """What `weft plan` decides."""
    (planned,) = plan_all([case.resource], case.fabric.world(), load(), _NOW)
    return Outcome(case, tuple(_pool(pool, decision) for pool, decision in planned.pools))


def page() -> str:
    """The whole page."""
    return as_page(applications(), rules())


def _application(title: str, file: str) -> Application:
    (resource,) = load_documents(str(REPOSITORY / "examples" / file))
    found = tuple(outcome(Case(fabric.words, resource, fabric)) for fabric in FABRICS)
    return Application(title, file, resource, found)


def _pool(pool: PoolRecord, decision: PoolDecision) -> Pool:
    plan, role = decision.status.plan, pool.spec.role.value if pool.spec else ""
    if plan is None:
        (why,) = (one.explanation for one in decision.conditions if one.kind == "Planned")
        return Pool(role, None, 0, 0.0, why)
    count = decision.status.desired_replicas
    cost = count * plan.shape.gpus * load().accelerator(plan.shape.accelerator).cost
    return Pool(role, plan, count, cost, plan.verdict)


def _chat_at(rate: int) -> Case:
    """The chat example at another rate, with as many replicas as it takes."""
    (chat,) = load_documents(str(REPOSITORY / "examples" / "chat-8b.yaml"))
    spec = chat["spec"]
    changed = {"workload": {**spec["workload"], "requestsPerSecond": rate}, "scaling": {"maxReplicas": 1000}}
    return Case(f"{rate} requests/s", {**chat, "spec": {**spec, **changed}}, H200)


def _of_size(model: str, fabric: Fabric) -> Case:
    """A model under targets so loose that its size decides; stages may lie in several domains."""
    spec = {
        "model": {"id": model, "maxModelLen": 16384},
        "workload": _workload(1, 1000, 300),
        "slo": {"ttft": {"p95": "10s"}, "tpot": {"p95": "200ms"}},
        "placement": {"domain": "Preferred"},
        "scaling": {"maxReplicas": 1000},
    }
    words = f"{model.rpartition('/')[2]} on {fabric.accelerator}"
    return Case(words, _resource("InferencePool", spec), fabric)


def _of_experts(rate: int, fabric: Fabric) -> Case:
    """Many experts under a tight target, at rising rates."""
    spec = {
        "model": {"id": "deepseek-ai/DeepSeek-V3", "maxModelLen": 16384},
        "workload": _workload(rate, 1000, 1000),
        "slo": {"ttft": {"p95": "10s"}, "tpot": {"p95": "25ms"}},
        "scaling": {"maxReplicas": 1000},
    }
    return Case(f"{request_rate(rate)} on {fabric.accelerator}", _resource("InferencePool", spec), fabric)


def _of_lengths(prompt: int, answer: int) -> Case:
    """One model as a split under one pair of targets: only the lengths differ."""
    spec = {
        "model": {"id": "meta-llama/Llama-3.3-70B-Instruct", "precision": "FP8", "maxModelLen": 65536},
        "engine": {"resources": {"rdma": {"resource": "rdma/ib", "count": 1}}},  # without it KV goes over TCP
        "workload": _workload(40, prompt, answer),
        "slo": {"ttft": {"p95": "10s"}, "tpot": {"p95": "50ms"}},
        "scaling": {"maxReplicas": 1000},
    }
    return Case(f"{prompt} tokens in, {answer} out", _resource("PDSplit", spec), MANY_H200)


def _workload(rate: int, prompt: int, answer: int) -> Json:
    return {"requestsPerSecond": rate, "inputTokens": {"mean": prompt}, "outputTokens": {"mean": answer}}


def _resource(kind: str, spec: Json) -> Json:
    return {"apiVersion": "weft.dev/v1alpha1", "kind": kind, "metadata": {"name": "case"}, "spec": spec}


def main(arguments: Sequence[str]) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.shapes", description="Write docs/shapes.md.")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.parse_args(arguments).page.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
