"""A hash of what a replica's pods are rendered from: replicas with another one are outdated."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.shape import EngineName
from weft.domain.spec import Balancing, RouterKind, SchedulerName
from weft.domain.values.remembered import LastAnswers
from weft.engines.pods.interfaces import named_interfaces

if TYPE_CHECKING:
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import Pairs, PoolSpec, RouterSpec, SplitSpec

# The plan has the outcome of these fields; settings that only steer the choice of shape or node change no pod.
_NOT_IN_MODEL = {"config_json", "config_map", "precision"}
_NOT_IN_ENGINE = {"name", "version", "image"}
_NOT_IN_KV = {"locality"}
_NOT_IN_POD = {"permitted"}  # a pod that is not permitted is not rendered at all
_AROUND_THE_ENGINE = {"resources", "shared_memory"}
REMEMBERED = 16_384  # pools
_LAST: LastAnswers[tuple[PoolSpec, Plan], str] = LastAnswers(REMEMBERED)


def revision(spec: PoolSpec, plan: Plan) -> str:
    """Ten hex digits over the role, the model, the engine, the shape and the pod fields.

    Fields with their default value are left out, so that a field added by a later version of Weft restarts nothing.
    Scaling, SLO, workload and rollout settings are no inputs: they also apply to running replicas, or only to later
    ones.
    """
    return _hash(
        {
            "role": spec.role.value,
            "model": _without(_settings(spec.model), _NOT_IN_MODEL),
            "engine": _without(_settings(spec.engine), _NOT_IN_ENGINE),
            "kv": _without(_settings(spec.kv), _NOT_IN_KV),
            "tolerations": _settings(spec.placement.tolerations),
            "pod": _without(_settings(spec.pod), _NOT_IN_POD),
            "apiKey": spec.router.api_key_secret,
            "shape": _settings(plan.shape),
            "release": _settings(plan.engine),
            **_admission(spec),
            **_balancing(spec, plan),
            **({"pair": spec.pair} if spec.pair else {}),
            **({"picker": True} if _is_told_to_a_picker(spec, plan) else {}),
            **({"sidecar": _settings(_sidecar(spec.router))} if spec.has_sidecar else {}),
        }
    )


def revision_asked(pool: PoolRecord) -> str | None:
    """The revision that a pool's spec and plan ask for, whatever its status says; None if either is missing."""
    spec, plan = pool.spec, pool.status.plan
    if spec is None or plan is None:
        return None
    return _LAST.ask(pool.key.uid, (spec, plan), lambda _: revision(spec, plan))


def pair_revision(split: SplitSpec, release: EngineRelease, kv_layouts: int = 0) -> str:
    """Ten hex digits over what the engines of both halves serve and how: only halves with the same ones exchange KV.

    They cover the model, the engine with arguments and variables, KV settings and release. What only surrounds the
    engine (resources, labels, tolerations) rolls its half alone, and so does a plan whose engines exchange KV with
    those of the one before; others are counted as `kv_layouts`. Routers and endpoint pickers never choose among pods
    of different ones either.
    """
    halves = [_meeting(split.prefill), _meeting(split.decode)]
    picked = {"picker": True} if split.router.kind is RouterKind.Gateway else {}
    layouts = {"layouts": kv_layouts} if kv_layouts else {}
    return _hash({"halves": halves, "release": _settings(release), **picked, **layouts})


def _meeting(spec: PoolSpec) -> dict[str, Any]:
    return {
        "model": _without(_settings(spec.model), _NOT_IN_MODEL),
        "engine": _without(_settings(spec.engine), _NOT_IN_ENGINE | _AROUND_THE_ENGINE),
        "kv": _without(_settings(spec.kv), _NOT_IN_KV),
        **_wires(spec),
    }


def _wires(spec: PoolSpec) -> dict[str, Any]:
    """Interfaces for KV over TCP if not the pod's usual one: halves on different ones may not reach each other."""
    named = named_interfaces(spec.pod) if spec.kv.transport == "TCP" else ()
    return {"interfaces": named} if named else {}


def _hash(inputs: dict[str, Any]) -> str:
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _admission(spec: PoolSpec) -> dict[str, Any]:
    """What pods carry for a scheduler that picks nodes itself; empty if Weft picks them."""
    placement = spec.placement
    if placement.scheduler is SchedulerName.Default:
        return {}
    return {
        "scheduler": placement.scheduler.value,
        "queue": placement.queue,
        "nodeSelector": placement.node_selector,
    }


def _balancing(spec: PoolSpec, plan: Plan) -> dict[str, Any]:
    """How ranks get requests, if not through the first pod."""
    found = spec.balances(plan.shape)
    return {} if found is Balancing.Internal else {"balancing": found.value}


def _is_told_to_a_picker(spec: PoolSpec, plan: Plan) -> bool:
    """Whether an endpoint picker has to read labels of the pods: without them it assumes vLLM in all roles."""
    return spec.router.kind is RouterKind.Gateway and plan.engine.name is not EngineName.VLLM


def _sidecar(router: RouterSpec) -> tuple[str | None, Pairs]:
    """What the sidecar is rendered from; the source of requests is not in the pod."""
    return router.image, router.resources


def _without(settings: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _settings(value: Any) -> Any:  # noqa: ANN401 - any value of the domain
    """The value as plain JSON; of dataclasses only what differs from its default."""
    if isinstance(value, tuple):
        return [_settings(member) for member in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    found = {}
    for each in fields(value):
        member = getattr(value, each.name)
        if each.default is MISSING or member != each.default:
            found[each.name] = _settings(member)
    return found
