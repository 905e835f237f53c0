"""The InferencePools and PDSplits among the documents, each with an identity as a cluster would give it."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from weft.api import refused_name
from weft.cli.ends.failure import CommandFailure
from weft.cli.ends.usage import perhaps
from weft.cli.typed.reference import refused_namespace
from weft.domain.labels import API_VERSION
from weft.domain.snapshot import ResourceKey
from weft.domain.workload import Role

_KINDS = ("InferencePool", "PDSplit")
_HALVES = (Role.Prefill, Role.Decode)


def the_resources(documents: list[dict[str, Any]], default_namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Return our resources as (title as in `PlannedResource`, body)."""
    return [
        (str(ResourceKey(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"], "")), body)
        for body in resources_of_ours(documents, default_namespace)
    ]


def resources_of_ours(documents: list[dict[str, Any]], default_namespace: str) -> list[dict[str, Any]]:
    """Return our resources, each with an identity; other objects are ignored. Raises `CommandFailure` without any.

    The same is raised for a kind or a version of our group that there is not: it would be left out in silence.
    """
    for body in documents:
        _refuse_what_is_nearly_ours(body)
    found = [_with_identity(body, default_namespace) for body in documents if _is_ours(body)]
    if not found:
        raise CommandFailure(f"there is no InferencePool and no PDSplit of {API_VERSION} to plan{_but(documents)}")
    _refuse_halves_alone(found)
    ours = [body for body in found if _owning_split(body) is None]
    _refuse_one_name_for_two([(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]) for body in ours])
    return ours


def _refuse_halves_alone(found: list[dict[str, Any]]) -> None:
    """Raise for a half without its split: it is planned with the split, and its GPUs would seem free."""
    splits = {(body["metadata"]["namespace"], body["metadata"]["name"]) for body in found if body["kind"] == "PDSplit"}
    for body in found:
        split, name, namespace = _owning_split(body), body["metadata"]["name"], body["metadata"]["namespace"]
        if split is not None and (namespace, split) not in splits:
            raise CommandFailure(
                f"InferencePool/{name} is a half of PDSplit/{split} in namespace {namespace}, which is not in the "
                f"input: add it (`kubectl get pdsplits.weft.dev -n {namespace} -o yaml`), or remove the half"
            )


def _owning_split(body: dict[str, Any]) -> str | None:
    """Return the PDSplit whose half this pool is, by its controller reference; None for what users write."""
    owners = body["metadata"].get("ownerReferences")
    found = [each for each in owners if isinstance(each, dict)] if isinstance(owners, list) else []
    splits = (each.get("name") for each in found if _is_ours(each) and each.get("controller") is True)
    return next((name for name in splits if isinstance(name, str)), None) if body["kind"] == "InferencePool" else None


def _refuse_one_name_for_two(names: list[tuple[str, str, str]]) -> None:
    """Raise where two of (kind, namespace, name) collide; the halves of a split are pools too."""
    times = Counter(names)
    splits = [(namespace, name) for kind, namespace, name in names if kind == "PDSplit"]
    halves = {(namespace, f"{name}-{half.lower()}"): name for namespace, name in splits for half in _HALVES}
    for kind, namespace, name in names:
        if times[kind, namespace, name] > 1:
            raise CommandFailure(f"{kind}/{name} appears twice in namespace {namespace}: give each a name of its own")
        split = halves.get((namespace, name)) if kind == "InferencePool" else None
        if split is not None:
            raise CommandFailure(f"InferencePool/{name} has the name of a half of PDSplit/{split}: rename one of them")


def _is_ours(body: dict[str, Any]) -> bool:
    return body.get("apiVersion") == API_VERSION and body.get("kind") in _KINDS


def _refuse_what_is_nearly_ours(body: dict[str, Any]) -> None:
    version, kind = str(body.get("apiVersion") or ""), str(body.get("kind") or "")
    if version.partition("/")[0] != API_VERSION.partition("/")[0] or _is_ours(body):
        return
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    of = f"{kind or 'an object without a kind'} {name or ''}".strip()
    if kind in _KINDS:
        raise CommandFailure(f"{of}: there is no apiVersion {version!r:.60}: write {API_VERSION}")
    near = next((each for each in _KINDS if each.lower() == kind.lower()), None)
    meant = f", perhaps {near}" if near else perhaps(kind, list(_KINDS))
    raise CommandFailure(f"{of}: {version} has no such kind{meant}: it has {' and '.join(_KINDS)}")


def _but(documents: list[dict[str, Any]]) -> str:
    found = sorted({_kind_of(body) for body in documents})
    return f", only {', '.join(found)}" if found else ": the input is empty"


def _kind_of(body: dict[str, Any]) -> str:
    if not body.get("kind"):
        return "an object without a kind"
    return f"{body.get('apiVersion') or 'an unversioned'} {body['kind']}"


def _with_identity(body: dict[str, Any], default_namespace: str) -> dict[str, Any]:
    given = body.get("metadata")
    metadata: dict[str, Any] = given if isinstance(given, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or default_namespace
    if name in (None, ""):
        raise CommandFailure(f"every {body['kind']} needs a name: write metadata.name")
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise CommandFailure(f"metadata.name and metadata.namespace of {body['kind']} {name} must be quoted strings")
    refused = refused_name(body["kind"], name) or refused_namespace(namespace) or _refused_labels(metadata)
    if refused is not None:
        raise CommandFailure(f"{body['kind']}/{name}: {refused}")
    identity = {"name": name, "namespace": namespace, "uid": uid_of(body["kind"], namespace, name), "generation": 1}
    return {**body, "metadata": {**metadata, **identity}}


def _refused_labels(metadata: dict[str, Any]) -> str | None:
    for key in ("labels", "annotations"):
        given = metadata.get(key) or {}
        if not isinstance(given, dict) or not all(isinstance(each, str) for pair in given.items() for each in pair):
            return f"metadata.{key} must be an object of strings: quote numbers, true and false"
    return None


def uid_of(kind: str, namespace: str, name: str) -> str:
    """Return a stable stand-in for the UID that the API server would assign."""
    return hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()[:32]
