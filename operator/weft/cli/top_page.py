"""`weft top`: every pool and split in one live table."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from weft.cli.explain_page import short

Json = dict[str, Any]


def top_page(pools: list[Json], splits: list[Json], namespace: str | None) -> Table | Text:
    """The table, or where to look when there is nothing to show; `namespace` None means all of them."""
    if pools or splits:
        return top_table(pools, splits)
    where = "in any namespace" if namespace is None else f"in namespace {namespace}; -A shows all namespaces"
    return Text(f"no InferencePool and no PDSplit {where}")


def top_table(pools: list[Json], splits: list[Json]) -> Table:
    """One row a resource; the children of a split follow it, indented."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("NAMESPACE", "NAME", "READY", "DESIRED", "SHAPE", "RATE", "TTFT", "TPOT", "SLO", "REASON"):
        table.add_column(
            heading, justify="right" if heading in {"READY", "DESIRED", "RATE", "TTFT", "TPOT"} else "left"
        )
    for split in sorted(splits, key=_name):
        table.add_row(*_row(split, _name(split)[1]))
        for child in sorted((pool for pool in pools if _owner(pool) == split["metadata"]["uid"]), key=_name):
            table.add_row(*_row(child, f"  {_name(child)[1]}"))
    owners = {split["metadata"]["uid"] for split in splits}
    for pool in sorted((pool for pool in pools if _owner(pool) not in owners), key=_name):
        table.add_row(*_row(pool, _name(pool)[1]))
    return table


def _row(body: Json, name: str) -> list[str | Text]:
    status = body.get("status") or {}
    observed = status.get("observed") or {}
    ready, desired = _counts(status)
    why = _telling(status)
    return [
        _name(body)[0],
        name,
        Text(ready, style="green" if ready == desired else "yellow"),
        desired,
        (status.get("plan") or {}).get("shape", ""),
        short(observed.get("requestsPerSecond", "-")),
        _percentile(observed.get("ttft")),
        _percentile(observed.get("tpot")),
        _condition(status, "SLOMet").get("reason", ""),
        Text(why.get("reason", ""), style="green" if why.get("status") == "True" else "red"),
    ]


def _counts(status: Json) -> tuple[str, str]:
    if "prefill" in status or "decode" in status:
        sides = [status.get(side) or {} for side in ("prefill", "decode")]
        return "+".join(str(side.get("ready", 0)) for side in sides), "+".join(
            str(side.get("desired", 0)) for side in sides
        )
    return str(status.get("readyReplicas", 0)), str(status.get("desiredReplicas", 0))


def _telling(status: Json) -> Json:
    """The first condition of the chain that does not hold, or Ready."""
    for kind in ("Planned", "Placed"):
        if _condition(status, kind).get("status") == "False":
            return _condition(status, kind)
    return _condition(status, "Ready")


def _condition(status: Json, kind: str) -> Json:
    return next((one for one in status.get("conditions") or [] if one["type"] == kind), {})


def _percentile(figures: Json | None) -> str:
    """The highest percentile that is known, with its name."""
    known = [(key, figures[key]) for key in ("p99", "p95", "p90", "p50") if figures and figures.get(key)]
    return f"{short(known[0][1])} {known[0][0]}" if known else "-"


def _name(body: Json) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _owner(body: Json) -> str | None:
    return next((one["uid"] for one in body["metadata"].get("ownerReferences") or [] if one["kind"] == "PDSplit"), None)
