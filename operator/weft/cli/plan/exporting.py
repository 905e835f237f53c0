"""The resource that a plan recommends: the request, with the chosen engine, precision and shape written into it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from weft.api import parse_pool, parse_split
from weft.api.status_writing import sizes_of
from weft.cli.ends.failure import CommandFailure
from weft.domain.labels import API_VERSION

if TYPE_CHECKING:
    from weft.domain.shape import Plan, Shape

Json = dict[str, Any]

_SHARED = ("model", "engine", "kvCache", "workload", "slo", "placement", "scaling", "rollout", "pod")
_OF_ONE_FORM = ("replicas", "maxGPUs")  # fields of scaling that mean something else in the other form
_BALANCING = "dataParallelBalancing"
_KEPT_METADATA = ("name", "namespace", "labels", "annotations")


def exported_pool(body: Json, plan: Plan) -> Json:
    """Make an InferencePool that runs a plan of one pool; raises `CommandFailure` where the request forbids it."""
    spec = _common(body, (plan,))
    spec["placement"] = {**spec.get("placement", {}), "accelerators": [plan.shape.accelerator]}
    spec["shape"] = {**_pins(plan.shape), **_balancing(body["spec"])}
    if "router" in body["spec"]:
        spec["router"] = copy.deepcopy(body["spec"]["router"])
    return _checked(_document("InferencePool", body, spec))


def exported_split(body: Json, prefill: Plan, decode: Plan) -> Json:
    """Make a PDSplit that runs the plans of both halves; raises `CommandFailure` where the request forbids it."""
    spec = _common(body, (prefill, decode))
    for name, plan in (("prefill", prefill), ("decode", decode)):
        own = copy.deepcopy(body["spec"].get(name, {}))
        placement = {**spec.get("placement", {}), **own.get("placement", {}), "accelerators": [plan.shape.accelerator]}
        spec[name] = {**own, "placement": placement, "shape": {**_pins(plan.shape), **_balancing(body["spec"], own)}}
    return _checked(_document("PDSplit", body, spec))


def _common(body: Json, plans: tuple[Plan, ...]) -> Json:
    """Return the fields that both forms share, with the engine's release, and the precision if all plans share it."""
    asked: Json = body["spec"]
    spec = {name: copy.deepcopy(asked[name]) for name in _SHARED if name in asked}
    spec["engine"] = {**spec.get("engine", {}), "name": plans[0].engine.name.value, "version": plans[0].engine.version}
    precisions = {plan.shape.precision.value for plan in plans}
    if len(precisions) == 1:
        model = {name: value for name, value in spec["model"].items() if name != "precisions"}
        spec["model"] = {**model, "precision": precisions.pop()}
    return spec


def _document(kind: str, body: Json, spec: Json) -> Json:
    if body["kind"] != kind and "scaling" in spec:
        kept = {name: value for name, value in spec["scaling"].items() if name not in _OF_ONE_FORM}
        spec["scaling"] = {**kept, "mode": "Auto"} if "mode" in kept else kept
    metadata = {name: body["metadata"][name] for name in _KEPT_METADATA if name in body["metadata"]}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _pins(shape: Shape) -> Json:
    """Return every size that is not 1, and the tensor-parallel size always."""
    sizes = sizes_of(shape)
    return {name: size for name, size in sizes.items() if size > 1 or name == "tensorParallel"}


def _balancing(*asked: Json) -> Json:
    """Return the only pin that is not a size, as it was asked for; the last one given counts."""
    said = [each["shape"][_BALANCING] for each in asked if _BALANCING in each.get("shape", {})]
    return {_BALANCING: said[-1]} if said else {}


def _checked(document: Json) -> Json:
    """Return the document if the operator's own parser accepts it; raises `CommandFailure` otherwise."""
    record = parse_pool(document) if document["kind"] == "InferencePool" else parse_split(document)
    if record.problem is not None:
        raise CommandFailure(f"the recommended {document['kind']} cannot be written: {record.problem.message}")
    return document
