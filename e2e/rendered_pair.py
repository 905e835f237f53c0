"""The engine containers of a pair as Weft renders them, for engines that run without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from e2e.team import SMALL, VERSION, tiny_model
from weft.api import parse_pool, parse_split
from weft.catalog import load
from weft.domain import labels
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName, Limit, Percentiles, Plan, Prediction, Shape
from weft.domain.status import Assignment, SplitStatus
from weft.domain.workload import Role
from weft.engines.pods.environment import POD_IP
from weft.render import render_child_pool, render_pods, revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from e2e.team import Json
    from weft.domain.snapshot import SplitRecord

_SECOND = Percentiles(1.0, 1.0, 1.0, 1.0, 1.0)
_PREDICTION = Prediction(1.0, _SECOND, _SECOND, 64, 65_536, 1e6, Limit.MemoryBandwidth)  # of no use to the renderer


@dataclass(frozen=True, slots=True)
class Rendered:
    """The container of one half: its command, and its variables but for the address of its pod."""

    command: tuple[str, ...]
    variables: Mapping[str, str | None]

    def environment(self, address: str) -> dict[str, str]:
        """The variables of a pod that has this address."""
        return {name: address if value is None else value for name, value in self.variables.items()}


def rendered_pair(model: Path) -> dict[Role, Rendered]:
    """Both halves of a split of the tiny model, on the CPU; weights are where they lie on this machine."""
    release = load().release(EngineName.VLLM, VERSION, "cpu")
    split = replace(parse_split(_body(model)), status=SplitStatus(release))
    shape = Shape(EngineName.VLLM, "cpu", Precision.FP32)
    plan = Plan(shape, _PREDICTION, release, Explanation(Reason.ShapeChosen, "the only one"))
    return {role: _rendered(split, role, plan, model) for role in (Role.Prefill, Role.Decode)}


def _body(model: Path) -> Json:
    metadata = {"name": "pair", "namespace": "team", "uid": "5f00", "generation": 1}
    spec = {"model": tiny_model(model), **SMALL}
    return {"apiVersion": labels.API_VERSION, "kind": "PDSplit", "metadata": metadata, "spec": spec}


def _rendered(split: SplitRecord, role: Role, plan: Plan, model: Path) -> Rendered:
    pool = parse_pool(render_child_pool(split, role))
    assert pool.spec is not None
    assigned = Assignment(0, revision(pool.spec, plan), ("node",), 1, 1.0)
    (pod,) = render_pods(replace(pool, status=replace(pool.status, plan=plan)), assigned)
    container = pod["spec"]["containers"][0]
    (mounted,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == "model")
    return Rendered(
        tuple(str(model) if word == mounted else word for word in container["command"]),
        {each["name"]: _value(each) for each in container["env"]},
    )


def _value(variable: Json) -> str | None:
    """None for the address of the pod, the only field that engines ask for here."""
    if "value" in variable:
        return str(variable["value"])
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": POD_IP}}
    return None
