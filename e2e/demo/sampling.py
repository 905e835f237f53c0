"""From one look at the world and the simulated fleet to one sample of the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.demo.scenario import STREAMS
from e2e.demo.timeline import ReportedPool
from weft.api.parsing import parse_pool, parse_split

if TYPE_CHECKING:
    from e2e.demo.timeline import Timeline
    from e2e.demo.world import World
    from weft.domain.workload import Slo
    from weft.twin.live.fleet import LiveStream, SimulatedFleet

Json = dict[str, Any]


def reported_pools(world: World) -> list[ReportedPool]:
    """One line of the report for each stream of traffic."""
    return [_reported(world, stream.name) for stream in STREAMS]


def _reported(world: World, name: str) -> ReportedPool:
    body = world.resource(name) or {}
    slo = _slo(body)
    plan = (body.get("status") or {}).get("plan") or {}
    model = body.get("spec", {}).get("model", {}).get("id", "").rpartition("/")[2]
    return ReportedPool(
        name=name,
        subtitle=" · ".join(word for word in (body.get("kind", ""), model, plan.get("shape", "")) if word),
        ttft=slo.ttft[-1] if slo and slo.ttft else None,
        tpot=slo.tpot[-1] if slo and slo.tpot else None,
    )


def _slo(body: Json) -> Slo | None:
    if body.get("kind") == "PDSplit":
        split = parse_split(body).spec
        return split.prefill.slo if split else None
    pool = parse_pool(body).spec if body else None
    return pool.slo if pool else None


def take_sample(moment: float, world: World, fleet: SimulatedFleet, timeline: Timeline) -> None:
    """Add the state at `moment` to the timeline."""
    domains = fabric_state(world)
    timeline.add_fabric(moment, domains)
    timeline.samples.append(
        {
            "t": round(moment, 1),
            "gpus_total": sum(node["total"] for domain in domains for node in domain["nodes"] if node["ready"]),
            "gpus_used": sum(count for domain in domains for node in domain["nodes"] for _, count in node["held"]),
            "pools": {stream.name: _pool_sample(moment, world, fleet, stream) for stream in STREAMS},
        }
    )


def _pool_sample(moment: float, world: World, fleet: SimulatedFleet, stream: LiveStream) -> Json:
    status = (world.resource(stream.name) or {}).get("status") or {}
    record = fleet.records[stream.name]
    names = {stream.pool, stream.decode_pool}
    sides = [status.get(side) or {} for side in ("prefill", "decode")] if stream.decode_pool else []
    return {
        "rate": round(stream.profile.rate(moment), 2),
        "desired": sum(side.get("desired", 0) for side in sides) if sides else status.get("desiredReplicas", 0),
        "ready": sum(side.get("ready", 0) for side in sides) if sides else status.get("readyReplicas", 0),
        "ttft": record.percentile("ttft", 95),
        "tpot": record.percentile("tpot", 95),
        "gpus": sum(
            _devices(pod.record.requests) for pod in world.engines if pod.pool in names and pod.record.holds_devices
        ),
    }


def _devices(requests: tuple[tuple[str, int], ...]) -> int:
    return sum(count for _, count in requests)


def fabric_state(world: World) -> list[Json]:
    """Who holds what on each node, domain by domain."""
    held: dict[str, dict[str, int]] = {}
    owner = {name: stream.name for stream in STREAMS for name in (stream.pool, stream.decode_pool) if name}
    for pod in world.engines:
        if pod.record.node is not None and pod.record.holds_devices:
            on_node = held.setdefault(pod.record.node, {})
            name = owner.get(pod.pool, pod.pool)
            on_node[name] = on_node.get(name, 0) + _devices(pod.record.requests)
    return [
        {
            "name": domain.name if len(domain.nodes) == 1 else f"rack of {len(domain.nodes)} trays",
            "accelerator": domain.accelerator,
            "nodes": [
                {
                    "name": node.name,
                    "ready": node.unusable is None,
                    "total": node.total,
                    "held": sorted(held.get(node.name, {}).items()),
                }
                for node in domain.nodes
            ],
        }
        for domain in world.fabric.domains
    ]


def new_events(moment: float, world: World, seen: set[str]) -> list[Json]:
    """Kubernetes events of ours that were not told yet, oldest first; what a split repeats of a half is told once."""
    fresh = [event for event in world.events if event["metadata"]["uid"] not in seen and _is_ours(event)]
    seen.update(event["metadata"]["uid"] for event in fresh)
    told = [
        {"t": round(moment, 1), "reason": event.get("reason", ""), **_told(event["regarding"]["name"], event)}
        for event in sorted(fresh, key=lambda event: event.get("eventTime") or "")
    ]
    return list({(each["what"], each["reason"], each["message"]): each for each in told}.values())


def _told(name: str, event: Json) -> Json:
    """What an event is about, as the report calls it: half of a split is told in the words of the split."""
    stream = next((stream for stream in STREAMS if name in {stream.pool, stream.decode_pool}), None)
    half = name.removeprefix(f"{stream.name}-") if stream is not None and stream.decode_pool else ""
    note = event.get("note", "")
    for role in ("Prefill", "Decode"):  # as the split's own events and conditions name its halves
        note = note.replace(f"{role} pool: ", f"{role.lower()}: ", 1) if note.startswith(f"{role} pool: ") else note
    return {"what": stream.name if stream else name, "message": f"{half}: {note}" if half else note}


def _is_ours(event: Json) -> bool:
    return event.get("regarding", {}).get("kind") in {"InferencePool", "PDSplit"}
