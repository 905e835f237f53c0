"""Looks at the demo's world as a cluster would show it, and runs that were seen through them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import yaml

from e2e.cluster.simulated_nodes import node_object
from e2e.demo import scenario
from e2e.demo.sampling import reported_pools, take_sample
from e2e.demo.timeline import Timeline
from e2e.demo.world import World
from weft.catalog import load
from weft.fabric import build_fabric
from weft.observe.objects.records import read_node
from weft.twin.live.fleet import SimulatedFleet

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

READY = {"type": "Ready", "status": "True"}
NAMES = [stream.name for stream in scenario.STREAMS]


def resources() -> list[Json]:
    """The documents of pools.yaml."""
    return list(yaml.safe_load_all(scenario.POOLS_FILE.read_text()))


def nodes() -> list[Json]:
    """The demo's nodes as its cluster shows them once they are up."""
    bodies = [node_object(node) for node in scenario.nodes()]
    return [{**body, "status": {**body["status"], "conditions": [READY]}} for body in bodies]


def look(ready: Iterable[str] = NAMES) -> World:
    """Every node is there and free; those pools are Ready and the others are not."""
    bodies = [_with_status(body, ready=body["metadata"]["name"] in ready) for body in resources()]
    return World(
        pools={body["metadata"]["name"]: body for body in bodies if body["kind"] == "InferencePool"},
        splits={body["metadata"]["name"]: body for body in bodies if body["kind"] == "PDSplit"},
        engines=(),
        fabric=build_fabric([read_node(node) for node in nodes()], [], load()),
        events=(),
    )


def _with_status(body: Json, *, ready: bool) -> Json:
    condition = READY if ready else {"type": "Ready", "status": "False"}
    return {**body, "status": {"desiredReplicas": 2, "conditions": [condition]}}


def event(moment: float, name: str) -> Json:
    """A reason that was told of a pool."""
    return {"t": moment, "what": name, "reason": "AllPlaced", "message": f"2 replicas of {name} placed"}


def timeline(*moments: float) -> Timeline:
    """A run that was sampled at those moments, with one reason for every pool at the first."""
    seen, fleet = look(), SimulatedFleet(scenario.STREAMS, Random(1))
    run = Timeline(pools=reported_pools(seen), events=[event(moments[0], name) for name in NAMES])
    for moment in moments:
        take_sample(moment, seen, fleet, run)
    return run
