"""`weft plan --drain NODE`: reads what runs, predicts what draining would do, and shows it. Nothing is written."""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.cli.cluster.config_maps import ConfigMaps
from weft.cli.cluster.running import running
from weft.cli.drain.draining import drain
from weft.cli.drain.page import drain_data, drain_page
from weft.cli.ends.failure import CLUSTER_REFUSES, CommandFailure
from weft.cli.telling.terminal import Format, print_data, show, working
from weft.domain.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.cli.cluster.world import World


def run_drain(world: World, nodes: Sequence[str], form: Format) -> bool:
    """Show what draining the nodes would do; returns whether every replica could move."""
    names = [node.name for node in world.nodes]
    for name in nodes:
        if name not in names:
            near = get_close_matches(name, names, 1)
            raise CommandFailure(f"there is no node {name or repr(name)}{f', perhaps {near[0]}' if near else ''}")
    with working("following what would happen"):
        found = drain(_snapshot(world), frozenset(nodes), load())
    if form is Format.table:
        show(drain_page(found))
    else:
        print_data(drain_data(found), form)
    return found.succeeds


def _snapshot(world: World) -> Snapshot:
    found = running(world)
    if found.unread:
        raise CommandFailure(f"what runs is not known: {found.unread}", CLUSTER_REFUSES)
    if not found.pools:
        raise CommandFailure(
            "no InferencePool with a status and a UID is there: a file is best made with "
            "`kubectl get nodes,pods,inferencepools,pdsplits -A -o yaml`"
        )
    configs = ConfigMaps.of(list(world.beside), world)
    pools, splits = map(configs.into_pool, found.pools), map(configs.into_split, found.splits)
    return Snapshot(time.time(), tuple(pools), tuple(splits), world.nodes, world.pods, reports=world.reports)
