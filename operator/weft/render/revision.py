"""A hash of what a replica's pods are rendered from: replicas that differ in it are outdated."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec

# What a wish became is in the plan; what only steers the choice of shape or node changes no pod.
_NOT_IN_MODEL = {"config_json", "config_map", "precision"}
_NOT_IN_ENGINE = {"name", "version", "image"}
_NOT_IN_KV = {"locality"}


def revision(spec: PoolSpec, plan: Plan) -> str:
    """Ten hex digits over the role, the model, the engine, the shape and the pod fields.

    Values that are unset are left out, so that a field which a later version of Weft adds restarts nothing. Scaling,
    SLO, workload and rollout settings are no inputs: they apply to running replicas too, or to their successors only.
    """
    inputs = {
        "role": spec.role.value,
        "model": _without(asdict(spec.model), _NOT_IN_MODEL),
        "engine": _without(asdict(spec.engine), _NOT_IN_ENGINE),
        "kv": _without(asdict(spec.kv), _NOT_IN_KV),
        "tolerations": [asdict(toleration) for toleration in spec.placement.tolerations],
        "pod": asdict(spec.pod),
        "apiKey": spec.router.api_key_secret,
        "shape": asdict(plan.shape),
        "release": asdict(plan.engine),
    }
    text = json.dumps(_set_values(inputs), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _without(fields: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _set_values(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value without members that are None or empty."""
    if isinstance(value, dict):
        kept = {key: _set_values(member) for key, member in value.items()}
        return {key: member for key, member in kept.items() if member is not None and member not in ({}, [], "")}
    if isinstance(value, list | tuple):
        return [_set_values(member) for member in value]
    return value
