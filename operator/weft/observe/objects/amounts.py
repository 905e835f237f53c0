"""What a node offers and a pod requests, as the scheduler counts it. Pure: no client types, no IO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.texts.units import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]
Devices = tuple[tuple[str, int], ...]


def amounts(quantities: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every amount that can be parsed, sorted by name."""
    for name, value in sorted(quantities.items()):
        try:
            yield name, parse_quantity(str(value))
        except Invalid:
            continue


def accelerator_like(quantities: Mapping[str, Any]) -> Devices:
    """Extended resources in a vendor's domain as whole devices, sorted; others and unreadable amounts are left out."""
    devices = ((name, _whole(value)) for name, value in quantities.items() if _is_extended(name))
    return tuple(sorted((name, count) for name, count in devices if count is not None))


def pod_requests(spec: Json) -> Devices:
    """Devices that the scheduler counts: the sum over containers and sidecars, or the peak of an init container.

    An init container runs beside the sidecars that stand before it.
    """
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _sum(beside, _requests(container))
        if container.get("restartPolicy") == "Always":
            beside = asked
        else:
            most = _larger(most, asked)
    for container in spec.get("containers") or ():
        beside = _sum(beside, _requests(container))
    return tuple(sorted(_larger(beside, most).items()))


def _sum(one: dict[str, int], other: Devices) -> dict[str, int]:
    return one | {name: one.get(name, 0) + count for name, count in other} if other else one


def _larger(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def _requests(container: Json) -> Devices:
    """Devices of one container; amounts that are not above zero are left out."""
    resources = container.get("resources") or {}
    asked = accelerator_like({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return tuple((name, count) for name, count in asked if count > 0)


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _whole(value: object) -> int | None:
    try:
        return int(parse_quantity(str(value)))
    except (Invalid, OverflowError):
        return None
