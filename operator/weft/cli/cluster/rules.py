"""PriorityClasses and ResourceQuotas of the files, or of the cluster that is read, as a cluster would apply them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.cli.cluster.running import classes_of, priority_classes, ranked, ranked_split
from weft.cli.ends.failure import CommandFailure
from weft.cli.files.reading import of_kind
from weft.domain.errors import Invalid
from weft.domain.quotas import COUNT_OF_PODS, limited_device
from weft.domain.texts.units import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.cli.cluster.running import Classes
    from weft.cli.cluster.world import World
    from weft.domain.quotas import QuotaRecord
    from weft.domain.snapshot import PoolRecord, SplitRecord

Json = dict[str, Any]
_IN_EVERY_CLUSTER: Classes = {
    "system-cluster-critical": (2_000_000_000, True),
    "system-node-critical": (2_000_001_000, True),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """PriorityClasses by name, and the ResourceQuotas that limit pods or accelerators."""

    classes: Classes = field(default_factory=dict)
    quotas: tuple[QuotaRecord, ...] = ()

    def ranking(
        self, pools: Iterable[PoolRecord], splits: Iterable[SplitRecord]
    ) -> tuple[tuple[PoolRecord, ...], tuple[SplitRecord, ...]]:
        """Return pools and splits with their priority."""
        return (
            tuple(ranked(each, self.classes) for each in pools),
            tuple(ranked_split(each, self.classes) for each in splits),
        )


NO_RULES = Rules()


def rules_of(documents: list[Json], world: World) -> Rules:
    """Return the rules of the files, and of the cluster if one is read; those of the resources' files go first.

    Quotas of a cluster that may not be read limit nothing. Raises `CommandFailure` for what no API server would accept.
    """
    return Rules(classes_in(documents, world), quotas_in(documents, world))


def classes_in(documents: list[Json], world: World) -> Classes:
    """Return PriorityClasses by name; those in the resources' files override those in the fabric's.

    Raises `CommandFailure` for one that no API server would accept.
    """
    given = of_kind(documents, "PriorityClass")
    for body in given:
        if type(body.get("value")) is not int:
            raise CommandFailure(f"PriorityClass {_name(body)} needs a whole number as value")
    return {**_IN_EVERY_CLUSTER, **priority_classes(world), **classes_of(given)}


def refuse_unknown_classes(pools: Iterable[PoolRecord], splits: Iterable[SplitRecord], classes: Classes) -> None:
    """Raise `CommandFailure` for a class that is in no file: priorities would silently be wrong."""
    for wrong in unknown_classes(pools, splits, classes):
        raise CommandFailure(f"{wrong}, which is in no file: add it with --file")


def unknown_classes(pools: Iterable[PoolRecord], splits: Iterable[SplitRecord], classes: Classes) -> list[str]:
    """Return the start of a sentence about each resource whose PriorityClass is not known."""
    specs = [(each.key, each.spec) for each in pools if each.spec is not None]
    halves = ((each.key, each.spec) for each in splits if each.spec is not None)
    specs += [(key, half) for key, spec in halves for half in (spec.prefill, spec.decode)]
    named = ((key, spec.pod.priority_class) for key, spec in specs)
    unknown = ((key, name) for key, name in named if name is not None and name not in classes)
    return list(dict.fromkeys(f"{key} names PriorityClass {name}" for key, name in unknown))


def quotas_in(documents: list[Json], world: World) -> tuple[QuotaRecord, ...]:
    """Return the ResourceQuotas that limit pods or accelerators, with what others use of them.

    Those in the resources' files override those in the fabric's. Raises `CommandFailure` for one that no API server
    would accept.
    """
    from weft.observe.objects.quotas import RESOURCE_QUOTAS, read_quota

    bodies = {}
    read = world.cluster.optional(RESOURCE_QUOTAS) if world.cluster is not None else None
    beside = of_kind([*world.beside], "ResourceQuota") if read is None else read
    for body in (*beside, *of_kind(documents, "ResourceQuota")):
        meta = _mapping(body.get("metadata"))
        bodies[meta.get("namespace") or world.namespace, _name(body)] = body
    quotas = (read_quota(_as_counted(namespace, name, body, world)) for (namespace, name), body in bodies.items())
    return tuple(quota for quota in quotas if quota is not None)


def _as_counted(namespace: str, name: str, body: Json, world: World) -> Json:
    """Return the quota with its status: as its controller counted it, else as counted over the pods of the file."""
    spec, status = _mapping(body.get("spec")), _mapping(body.get("status"))
    hard = _mapping(spec.get("hard"))
    for limit, value in hard.items():
        if limit in COUNT_OF_PODS or limited_device(limit) is not None:
            _refuse_no_quantity(name, limit, value)
    _refuse_no_scopes(name, spec)
    used = {**dict(_used(namespace, hard, world)), **_mapping(status.get("used"))}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
        "status": {"hard": hard, "used": used},
    }


def _refuse_no_quantity(name: str, limit: str, value: object) -> None:
    try:
        parse_quantity(str(value))
    except (Invalid, OverflowError):
        raise CommandFailure(f"ResourceQuota {name}: {limit} is {value!r:.60}, which is no quantity") from None


def _refuse_no_scopes(name: str, spec: Json) -> None:
    listed = [spec.get("scopes") or [], _mapping(spec.get("scopeSelector")).get("matchExpressions") or []]
    selector = spec.get("scopeSelector") or {}
    whole = isinstance(selector, dict) and all(isinstance(each, list) for each in listed)
    if not whole or not all(isinstance(each, dict) for each in listed[1]):
        raise CommandFailure(f"ResourceQuota {name}: its scopes are none that the API server would take")


def _used(namespace: str, hard: Json, world: World) -> Iterator[tuple[str, str]]:
    pods = [pod for pod in world.pods if pod.namespace == namespace and not pod.ended]
    for limit in hard:
        device = limited_device(limit)
        if device is not None:
            yield limit, str(sum(dict(pod.requests).get(device, 0) for pod in pods))
        else:
            yield limit, str(len(pods))


def _name(body: Json) -> str:
    name = _mapping(body.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        raise CommandFailure(f"every {body['kind']} needs a name: write metadata.name")
    return name


def _mapping(value: object) -> Json:
    """Return a part of an unchecked object, or an empty map where it is none."""
    return value if isinstance(value, dict) else {}
