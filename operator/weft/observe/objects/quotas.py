"""ResourceQuotas, from plain JSON to frozen records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.quotas import COUNT_OF_PODS, QuotaRecord, QuotaScope, limited_device
from weft.domain.texts.units import parse_quantity
from weft.observe.objects.reports import OptionalKind

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

RESOURCE_QUOTAS = OptionalKind("ResourceQuota", "", ("v1",), "resourcequotas")


def read_quota(body: Json) -> QuotaRecord | None:
    """A ResourceQuota; None for one that limits neither pods nor accelerators.

    The API server admits pods by its status. What has not been counted yet is taken as used up, since the API
    server refuses every pod until it has.
    """
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    hard = dict(_amounts(status.get("hard") or spec.get("hard") or {}))
    counted = dict(_amounts(status.get("used") or {}))
    if not hard:
        return None
    used = tuple((name, counted.get(name, amount)) for name, amount in sorted(hard.items()))
    return QuotaRecord(meta["namespace"], meta["name"], tuple(sorted(hard.items())), used, tuple(_scopes(spec)))


def _amounts(quantities: Json) -> Iterator[tuple[str, int]]:
    for name, value in quantities.items():
        if name in COUNT_OF_PODS or limited_device(name) is not None:
            try:
                yield name, int(parse_quantity(str(value)))
            except (Invalid, OverflowError):
                continue


def _scopes(spec: Json) -> Iterator[QuotaScope]:
    for name in spec.get("scopes") or ():
        yield QuotaScope(str(name))
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(sorted(map(str, each.get("values") or ())))
        yield QuotaScope(str(each.get("scopeName")), str(each.get("operator")), values)
