"""Nodes, pods and slices with one field as nobody expects it: everybody is decided on, and no pool loses a replica.

The API server has checked types, and nothing else: any text may be in a label, an amount or a time, and lists may be
empty or say a thing twice.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding.cluster import GPU, boards, rack
from tests.holding.operation import TEAM, Operation, pool_body
from weft.catalog import load
from weft.converge import Heard, converge_pool
from weft.decide import decide
from weft.domain.reports import Reports
from weft.fabric import build_fabric
from weft.observe.objects.records import read_node, read_pod
from weft.observe.objects.reports import read_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
Path = tuple[str | int, ...]

TEXTS = (
    *("", ".", "x" * 63, "a/b/c", "é☃", "١٢", "²", "true", " 8", "0x10", "1_000"),
    *("-1", "0", "0.5", "8k", "1Ei", "nan", "inf", "1e400", "9" * 30),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+25:00", "2026-01-01"),
    *("NVIDIA-H200", "GB200", "team-a", GPU),
)
NUMBERS = (0, -1, 2**31, 2**63, -(2**63))
KEYS = (
    *("nvidia.com/gpu.product", "nvidia.com/gpu.clique", "nvidia.com/gpu.count", "nvidia.com/gpu.memory"),
    *("nvidia.com/mig-1g.18gb", "nvidia.com/gpu.shared", "amd.com/gpu", "rdma/hca", "weft.dev/routed", "", "é"),
    *("topology.kubernetes.io/zone", "network.topology.nvidia.com/leaf", "nvidia.com/mig.strategy"),
)
IDENTITY = {("metadata",), *(("metadata", name) for name in ("name", "namespace", "uid"))}
OF_OTHERS: Json = {
    "metadata": {"name": "job", "namespace": "other", "uid": "job", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "nodeName": "b-2",
        "priority": 5,
        "containers": [{"name": "c", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "2", "cpu": "1"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {GPU: "1"}}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
SLICE: Json = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "b-0",
        "pool": {"name": "b-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H200"}},
                "capacity": {"memory": {"value": "143771Mi"}},
            }
        ],
    },
}


@cache
def world() -> Operation:
    """Two pools that serve, and room beside them."""
    found = Operation.of(
        [*boards(3), *rack("a.1", 4)], pool_body("chat", "H200", 8, 1), pool_body("wide", "GB200", 8, 1)
    )
    found.rest()
    return found


def paths(value: Any, here: Path = ()) -> Iterator[Path]:  # noqa: ANN401 - any JSON
    yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from paths(each, (*here, key))


def odd(value: Any, data: st.DataObject, *, listed: bool) -> Any:  # noqa: ANN401 - any JSON
    """A value of the same type, or null for a field: an API server lists objects that may be empty, and never null."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return data.draw(st.sampled_from(TEXTS))
    if isinstance(value, int):
        return data.draw(st.sampled_from(NUMBERS))
    if isinstance(value, list):
        return data.draw(st.sampled_from([[], [*value, *value], None]))
    if value and all(isinstance(each, str) for each in value.values()):
        key = data.draw(st.sampled_from([*value, *KEYS]))
        return {**value, key: data.draw(st.sampled_from(TEXTS))}
    return {} if listed else data.draw(st.sampled_from([{}, None]))


def changed(body: Json, data: st.DataObject) -> Json:
    """The object with one field removed or odd."""
    body = copy.deepcopy(body)
    path = data.draw(st.sampled_from([each for each in paths(body) if each and each not in IDENTITY]))
    at: Any = body
    for key in path[:-1]:
        at = at[key]
    if isinstance(at, dict) and data.draw(st.booleans()):
        del at[path[-1]]
    else:
        at[path[-1]] = odd(at[path[-1]], data, listed=isinstance(at, list))
    return body


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_odd_object_stops_nobody(data: st.DataObject) -> None:
    """It may itself look free, full, broken or gone; whoever has nothing to do with it stays as it is."""
    there = world()
    nodes, pods = [*there.cluster.nodes.values()], [*there.cluster.pods.values(), OF_OTHERS]
    which = data.draw(st.integers(0, len(nodes) + len(pods)))
    bodies = [*nodes, *pods, SLICE]
    bodies[which] = changed(bodies[which], data)
    seen = tuple(map(read_node, bodies[: len(nodes)]))
    known = tuple(pod for body in bodies[len(nodes) : -1] if (pod := read_pod(body)) is not None)
    device = read_devices(bodies[-1])
    reports = Reports((device,) if device is not None else ())
    decided = decide(replace(there.snapshot(), nodes=seen, pods=known, reports=reports), load())
    assert {"chat", "wide"} == {each.key.name for each in decided.pools}
    fabric = build_fabric(seen, known, load(), reports)
    for pool in there.pools():
        converge_pool(pool, fabric, known, there.cluster.objects_of(TEAM), Heard(there.cluster.now, None))
    touched = bodies[which]["metadata"]["name"]
    for each in decided.pools:
        before = there.assignments(each.key.name)
        if not any(touched.startswith(f"{each.key.name}-") or touched in one.nodes for one in before):
            assert {one.replica for one in before} <= {one.replica for one in each.status.assignments}, touched
