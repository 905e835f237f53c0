"""How a Gateway reaches pods: an InferencePool of the Gateway API Inference Extension (v1), and a route to it.

That InferencePool is of the group `inference.networking.k8s.io`; an endpoint picker follows one by name.
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

# llm-d's picker reads a pod's role and engine from these; before 0.8 it knew only the second engine label.
ROLE_LABEL = "llm-d.ai/role"
ENGINE_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
_ENGINES = {EngineName.VLLM: "vllm", EngineName.SGLang: "sglang", EngineName.TensorRTLLM: "trtllm-serve"}
_ROLES = {Role.Aggregated: "both", Role.Prefill: "prefill", Role.Decode: "decode"}


def render_endpoints(
    owner: ResourceKey, tags: dict[str, str], selector: Pairs, ports: Iterable[int], gateway: GatewaySpec
) -> Json:
    """The InferencePool, named as its owner: the pods that the picker may choose, at each of the ports."""
    api_version, kind = ENDPOINTS
    picker = {
        "group": "",
        "kind": "Service",
        "name": gateway.picker,
        "port": {"number": gateway.picker_port},
        "failureMode": "FailClose",  # nothing else knows which pods may be paired, or how full they are
    }
    spec = {**_chosen(selector, ports), "endpointPickerRef": picker}
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
    """The generation (pair) of a split that its InferencePool selects; empty if there is none."""
    return _match_labels(endpoints).get(labels.PAIR, "") if endpoints is not None else ""


def show_pair(endpoints: ObjectRecord, owner: ResourceKey, tags: dict[str, str], pair: str, *, paired: bool) -> Json:
    """The InferencePool of a split as it is, but for which pair the picker may choose: none without `paired`."""
    before = _match_labels(endpoints)
    chosen = {**before, labels.SPLIT_UID: owner.uid, labels.PAIR: pair, labels.ROUTED: "true" if paired else "false"}
    return _as_it_is_but_for(endpoints, owner, tags, {"selector": {"matchLabels": chosen}})


def show_chosen(
    endpoints: ObjectRecord, owner: ResourceKey, tags: dict[str, str], selector: Pairs, ports: Iterable[int]
) -> Json:
    """The InferencePool of a pool as it is, but for which pods the picker may choose, and at which ports."""
    return _as_it_is_but_for(endpoints, owner, tags, _chosen(selector, ports))


def _chosen(selector: Pairs, ports: Iterable[int]) -> Json:
    return {
        "selector": {"matchLabels": dict(selector)},
        "targetPorts": [{"number": port} for port in ports],
    }


def _as_it_is_but_for(endpoints: ObjectRecord, owner: ResourceKey, tags: dict[str, str], fields: Json) -> Json:
    before = endpoints.body.get("spec", {})
    if {**before, **fields} == before:
        return endpoints.body
    api_version, kind = ENDPOINTS
    meta = child_metadata(owner.name, owner, tags)
    return signed({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {**before, **fields}})


def _match_labels(endpoints: ObjectRecord) -> dict[str, str]:
    selector = endpoints.body.get("spec", {}).get("selector") or {}
    return selector.get("matchLabels") or {}


def gateway_section(gateway: GatewaySpec) -> Json:
    """`router.gateway` of our own resources, as a split passes it to its halves."""
    section: Json = {
        "parentRefs": [_parent(each) for each in gateway.parents],
        "endpointPickerRef": {"name": gateway.picker, "port": gateway.picker_port},
    }
    return {**section, "hostnames": list(gateway.hostnames)} if gateway.hostnames else section


def picker_labels(role: Role, engine: EngineName) -> dict[str, str]:
    """Labels by which a picker needs no configuration for a pod."""
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
