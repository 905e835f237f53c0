"""The page of `weft top`: every pool and split in one live table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from weft.cli.telling.figures import figure
from weft.cli.telling.tables import headed_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

Json = dict[str, Any]
_HEADINGS = ("name", "ready", "desired", "shape", "rate", "TTFT", "TPOT", "SLO", "reason")
_NUMBERS = {"ready", "desired", "rate", "TTFT", "TPOT"}


def top_page(pools: list[Json], splits: list[Json], namespace: str | None) -> Table | Text:
    """Return the table, or a hint where there is nothing to show; `namespace` None means all namespaces."""
    if pools or splits:
        return _table(pools, splits, with_namespace=namespace is None)
    where = "in any namespace" if namespace is None else f"in namespace {namespace}; -A shows all namespaces"
    return Text(f"no InferencePool and no PDSplit {where}")


def _table(pools: list[Json], splits: list[Json], *, with_namespace: bool) -> Table:
    """Return a table with one row per resource; the children of a split follow it, indented."""
    found = headed_table(*(["namespace"] if with_namespace else []), *_HEADINGS, right=_NUMBERS, wraps={"shape"})
    for body, name in _rows(pools, splits):
        found.add_row(*([_name(body)[0]] if with_namespace else []), *_row(body, name))
    return found


def _rows(pools: list[Json], splits: list[Json]) -> Iterator[tuple[Json, str]]:
    """Yield each resource with its name as shown."""
    owners = {split["metadata"]["uid"] for split in splits}
    for split in sorted(splits, key=_name):
        yield split, _name(split)[1]
        for child in sorted((pool for pool in pools if _owner(pool) == split["metadata"]["uid"]), key=_name):
            yield child, f"  {_name(child)[1]}"
    for pool in sorted((pool for pool in pools if _owner(pool) not in owners), key=_name):
        yield pool, _name(pool)[1]


def _row(body: Json, name: str) -> list[str | Text]:
    status = body.get("status") or {}
    observed = status.get("observed") or {}
    ready, desired = _counts(status)
    why = _telling(status) if status else {"reason": "not looked at yet"}
    return [
        name,
        Text(ready, style="green" if status and ready == desired else "yellow"),
        desired,
        "" if body["kind"] == "PDSplit" else (status.get("plan") or {}).get("shape", ""),
        figure(observed.get("requestsPerSecond", "-")),
        _percentile(observed.get("ttft")),
        _percentile(observed.get("tpot")),
        _condition(status, "SLOMet").get("reason", ""),
        Text(why.get("reason", ""), style="green" if why.get("status") == "True" else "red"),
    ]


def _counts(status: Json) -> tuple[str, str]:
    if not status:
        return "-", "-"
    if "prefill" in status or "decode" in status:
        sides = [status.get(side) or {} for side in ("prefill", "decode")]
        return "+".join(str(side.get("ready", 0)) for side in sides), "+".join(
            str(side.get("desired", 0)) for side in sides
        )
    return str(status.get("readyReplicas", 0)), str(status.get("desiredReplicas", 0))


def _telling(status: Json) -> Json:
    """Return the condition Planned or Placed if it does not hold, else Ready."""
    for kind in ("Planned", "Placed"):
        if _condition(status, kind).get("status") == "False":
            return _condition(status, kind)
    return _condition(status, "Ready")


def _condition(status: Json, kind: str) -> Json:
    return next((one for one in status.get("conditions") or [] if one["type"] == kind), {})


def _percentile(figures: Json | None) -> str:
    """Format the highest percentile that is known, with its name."""
    known = [(key, figures[key]) for key in ("p99", "p95", "p90", "p50") if figures and figures.get(key)]
    return f"{figure(known[0][1])} {known[0][0]}" if known else "-"


def _name(body: Json) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _owner(body: Json) -> str | None:
    return next((one["uid"] for one in body["metadata"].get("ownerReferences") or [] if one["kind"] == "PDSplit"), None)
