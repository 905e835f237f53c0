"""The shipped manifests as `kubectl apply -k` would read them: resources, and patches that add a value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import dynamic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubernetes.client import ApiClient

Json = dict[str, Any]

MANIFESTS = Path(__file__).parents[1] / "manifests"


def load(folder: Path | str) -> list[Json]:
    """Every object of a kustomization, in the order of its resources."""
    root = MANIFESTS / folder
    kustomization = yaml.safe_load((root / "kustomization.yaml").read_text())
    objects: list[Json] = []
    for resource in kustomization["resources"]:
        path = root / resource
        objects += load(path.resolve()) if path.is_dir() else _documents(path)
    for patch in kustomization.get("patches", ()):
        for body in objects:
            if (body["kind"], body["metadata"]["name"]) == (patch["target"]["kind"], patch["target"]["name"]):
                _add(body, yaml.safe_load(patch["patch"]))
    return objects


def install(api: ApiClient, objects: Iterable[Json], namespace: str | None = None) -> None:
    """Apply objects as an administrator does; `namespace` for those that name none."""
    client = dynamic.DynamicClient(api)
    for body in objects:
        resource = client.resources.get(api_version=body["apiVersion"], kind=body["kind"])
        target = body["metadata"].get("namespace") or (namespace if resource.namespaced else None)
        resource.server_side_apply(
            body=body,
            name=body["metadata"]["name"],
            namespace=target,
            field_manager="administrator",
            force_conflicts=True,
        )


def _documents(path: Path) -> list[Json]:
    return [body for body in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if body]


def _add(body: Json, operations: list[Json]) -> None:
    """JSON patches that append to a list or set a field: all that our overlays need."""
    for operation in operations:
        assert operation["op"] == "add", f"not supported here: {operation}"
        *parents, last = re.split("/", operation["path"])[1:]
        target: Any = body
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
