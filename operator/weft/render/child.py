"""The two InferencePools of a PDSplit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.errors import Bug
from weft.domain.reasons import Reason
from weft.domain.spec import RouterKind
from weft.domain.values.remembered import LastAnswers
from weft.domain.workload import Role
from weft.render.gateway import gateway_section
from weft.render.metadata import child_metadata, signed, split_labels
from weft.render.revision import pair_revision

if TYPE_CHECKING:
    from weft.domain.shape import EngineRelease
    from weft.domain.snapshot import SplitRecord
    from weft.domain.spec import SplitSpec
    from weft.render.metadata import Json

REMEMBERED = 16_384  # splits
_LAST_PAIR: LastAnswers[tuple[SplitSpec, EngineRelease, int], str] = LastAnswers(REMEMBERED)


def render_child_pool(split: SplitRecord, role: Role) -> Json:
    """One half as Weft owns it: all but `scaling.replicas`, which belongs to others in External mode.

    Both halves get the same engine release, because their KV formats must agree in every detail.
    """
    if split.status.engine is None:
        raise Bug(Reason.SpecInvalid, f"{split.key} has no engine release yet")
    spec = _side(split, role)
    scaling = {key: value for key, value in spec.get("scaling", {}).items() if key != "replicas"}
    body = _pool(split, role)
    body["metadata"]["labels"][labels.PAIR] = pair_of(split)
    body["spec"] = {
        **spec,
        "role": role.value,
        "engine": {**spec.get("engine", {}), **_release(split.status.engine)},
        "router": {**spec.get("router", {}), **_router(split)},
        **({"scaling": scaling} if scaling else {}),
    }
    return signed(body)


def _router(split: SplitRecord) -> Json:
    """The router section of a half, which has no router; behind a Gateway its pods get labels and a sidecar by it."""
    router = split.spec.router if split.spec is not None else None
    if router is None or router.gateway is None:
        return {"type": RouterKind.Nothing.value}
    section: Json = {"type": RouterKind.Gateway.value, "gateway": gateway_section(router.gateway)}
    if router.image is not None:
        section["image"] = router.image
    return {**section, "resources": dict(router.resources)} if router.resources else section


def pair_of(split: SplitRecord) -> str:
    """The revision that both halves of a split share; raises `Bug` before its engine is resolved."""
    if split.status.engine is None or split.spec is None:
        raise Bug(Reason.SpecInvalid, f"{split.key} has no engine release yet")
    question = split.spec, split.status.engine, split.status.kv_layouts
    return _LAST_PAIR.ask(split.key.uid, question, lambda asked: pair_revision(*asked))


def render_child_seed(split: SplitRecord, role: Role, replicas: int) -> Json:
    """The least that the API server accepts, with the initial replica count, which others own afterwards.

    Applied by a field manager of its own: later applies of everything else then never contain nor remove the count.
    """
    spec = _side(split, role)
    return {
        **_pool(split, role),
        "spec": {
            "role": role.value,
            "model": {"id": spec["model"]["id"]},
            "scaling": {"mode": "External", "replicas": replicas},
        },
    }


def _side(split: SplitRecord, role: Role) -> Json:
    if split.spec is None:
        raise Bug(Reason.SpecInvalid, f"{split.key} has no spec to render")
    side: Json = json.loads(split.spec.prefill_body if role is Role.Prefill else split.spec.decode_body)
    return side


def _pool(split: SplitRecord, role: Role) -> Json:
    tags = {**split_labels(split), labels.ROLE: role.value.lower()}
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "InferencePool",
        "metadata": child_metadata(split.child_name(role), split.key, tags),
    }


def _release(release: EngineRelease) -> Json:
    return {"name": release.name.value, "version": release.version, "image": release.image}
