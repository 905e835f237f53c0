"""`weft explain`: a resource's status in words, and the domains considered where a replica has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from weft.cli.ends.failure import CommandFailure
from weft.cli.explain.considered import considered, considered_page, lacks_a_place
from weft.cli.explain.page import explanation, is_ready
from weft.cli.telling.terminal import show, working

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.cli.cluster.reading import ClusterReader
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]


def run_explain(reader: ClusterReader, kind: str, name: str, *, domains: bool = False) -> bool:
    """Explain a resource; returns whether it is ready. `domains` are shown even if every replica has a place."""
    with working("reading the cluster"):
        body = reader.resource(kind, name)
        parts = _considered(reader, body, always=domains)
    show(explanation(body), *(Padding(part, (1, 0, 0, 0)) for part in parts))
    return is_ready(body)


def _considered(reader: ClusterReader, body: Json, *, always: bool) -> list[RenderableType]:
    """Return the domains considered if a replica has no place or `always`; one line if the fabric cannot be read."""
    conditions = (body.get("status") or {}).get("conditions") or []
    lacks = lacks_a_place([(each["type"], each["status"], each["reason"]) for each in conditions])
    if not (lacks or always):
        return []
    try:
        return _of_fabric(reader, body["metadata"]["uid"], always=always)
    except CommandFailure as failure:
        return [Text(f"which NVLink domains were considered cannot be told: {failure.message}", style="yellow")]


def _of_fabric(reader: ClusterReader, uid: str, *, always: bool) -> list[RenderableType]:
    from weft.cli.cluster.world import world_of_cluster
    from weft.cli.fabric.command import seated

    found = seated(world_of_cluster(reader))
    if found.running.unread:
        raise CommandFailure(found.running.unread)
    ours = [pool for pool in found.running.pools if uid in {pool.key.uid, pool.split_uid}]
    told = (considered(pool, found.sitting, _of_the_others(pool, ours), always=always) for pool in ours)
    return [considered_page(each) for each in told if each is not None]


def _of_the_others(pool: PoolRecord, ours: list[PoolRecord]) -> list[str]:
    """Return the nodes of the other half of a split."""
    others = (other for other in ours if other is not pool)
    return [node for other in others for each in other.status.assignments for node in each.nodes]
