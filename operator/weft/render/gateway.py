"""What a Gateway sends requests by: an InferencePool of the Gateway API Inference Extension (v1), and a route to it.

That InferencePool is of the group `inference.networking.k8s.io`; an endpoint picker follows one, by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.shape import EngineName
from weft.domain.workload import Role
from weft.render.metadata import child_metadata, signed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import ObjectRecord
    from weft.domain.snapshot import ResourceKey
    from weft.domain.spec import GatewayParent, GatewaySpec, Pairs
    from weft.render.metadata import Json

ENDPOINTS_GROUP, ROUTE_GROUP = "inference.networking.k8s.io", "gateway.networking.k8s.io"
ENDPOINTS = (f"{ENDPOINTS_GROUP}/v1", "InferencePool")
ROUTE = (f"{ROUTE_GROUP}/v1", "HTTPRoute")

# By these llm-d's picker tells what a pod can do and whose metrics it shows; before 0.8 it knew the second name alone.
ROLE_LABEL = "llm-d.ai/role"
ENGINE_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
_ENGINES = {EngineName.VLLM: "vllm", EngineName.SGLang: "sglang", EngineName.TensorRTLLM: "trtllm-serve"}
_ROLES = {Role.Aggregated: "both", Role.Prefill: "prefill", Role.Decode: "decode"}


def render_endpoints(
    owner: ResourceKey, tags: dict[str, str], selector: Pairs, ports: Iterable[int], gateway: GatewaySpec
) -> Json:
    """The InferencePool under the name of its owner: pods that may be chosen, at each port, by the picker's word."""
    api_version, kind = ENDPOINTS
    picker = {
        "group": "",
        "kind": "Service",
        "name": gateway.picker,
        "port": {"number": gateway.picker_port},
        "failureMode": "FailClose",  # nobody else would know which pods may meet, or how full they are
    }
    spec = {
        "selector": {"matchLabels": dict(selector)},
        "targetPorts": [{"number": port} for port in ports],
        "endpointPickerRef": picker,
    }
    meta = child_metadata(owner.name, owner, tags)
    return signed({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})


def render_route(owner: ResourceKey, tags: dict[str, str], gateway: GatewaySpec) -> Json:
    """The HTTPRoute that sends every path of its host names to the InferencePool."""
    api_version, kind = ROUTE
    backend = {"group": ENDPOINTS_GROUP, "kind": ENDPOINTS[1], "name": owner.name, "weight": 1}
    spec: Json = {
        "parentRefs": [_parent(each) for each in gateway.parents],
        "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": [backend]}],
    }
    if gateway.hostnames:
        spec["hostnames"] = list(gateway.hostnames)
    meta = child_metadata(owner.name, owner, tags)
    return signed({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})


def shown_pair(endpoints: ObjectRecord | None) -> str:
    """The generation of a split that its InferencePool selects, by its pair; empty where there is none."""
    selector = endpoints.body.get("spec", {}).get("selector") or {} if endpoints is not None else {}
    return str((selector.get("matchLabels") or {}).get(labels.PAIR, ""))


def gateway_section(gateway: GatewaySpec) -> Json:
    """`router.gateway` of a resource of ours, as a split hands it to its halves."""
    section: Json = {
        "parentRefs": [_parent(each) for each in gateway.parents],
        "endpointPickerRef": {"name": gateway.picker, "port": gateway.picker_port},
    }
    return {**section, "hostnames": list(gateway.hostnames)} if gateway.hostnames else section


def picker_labels(role: Role, engine: EngineName) -> dict[str, str]:
    """What a pod carries so that a picker needs no setting for it."""
    return {ROLE_LABEL: _ROLES[role], **dict.fromkeys(ENGINE_LABELS, _ENGINES[engine])}


def _parent(parent: GatewayParent) -> Json:
    fields: Json = {
        "group": parent.group,
        "kind": parent.kind,
        "name": parent.name,
        "namespace": parent.namespace,
        "sectionName": parent.section,
        "port": parent.port,
    }
    return {key: value for key, value in fields.items() if value is not None}
