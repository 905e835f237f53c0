"""What the demo reads of its cluster once a second: resources, engine pods and nodes, as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client

from e2e.demo.scenario import NAMESPACE
from weft.catalog import load
from weft.domain import labels
from weft.fabric import build_fabric
from weft.observe.records import read_node, read_pod

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A pod of ours with what the simulation needs: where it answers, for whom, and whether fronts may choose it."""

    record: PodRecord
    pool: str


@dataclass(frozen=True, slots=True)
class World:
    """One look."""

    pools: dict[str, Json]
    splits: dict[str, Json]
    engines: tuple[EnginePod, ...]
    fabric: Fabric
    events: tuple[Json, ...]

    def resource(self, name: str) -> Json | None:
        """A split or a pool by name."""
        return self.splits.get(name) or self.pools.get(name)

    def condition(self, name: str, kind: str) -> Json:
        """One condition of a resource, or nothing."""
        status = (self.resource(name) or {}).get("status") or {}
        return next((one for one in status.get("conditions") or [] if one["type"] == kind), {})


class WorldReader:
    """Reads with the administrator's rights, as a person with kubectl would."""

    def __init__(self, api: client.ApiClient) -> None:
        """Keep the connection."""
        self._api = api
        self._core = client.CoreV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._events = client.EventsV1Api(api)

    def look(self) -> World:
        """Everything, now."""
        pods = self._plain(self._core.list_namespaced_pod(NAMESPACE))
        records = [(read_pod(body), body) for body in pods]
        ours = [(record, body) for record, body in records if record is not None]
        nodes = [read_node(body) for body in self._plain(self._core.list_node())]
        return World(
            pools=self._resources("inferencepools"),
            splits=self._resources("pdsplits"),
            engines=tuple(EnginePod(record, body["metadata"]["labels"].get(labels.POOL, "")) for record, body in ours),
            fabric=build_fabric(nodes, [record for record, _ in ours], load()),
            events=tuple(self._plain(self._events.list_namespaced_event(NAMESPACE))),
        )

    def _resources(self, plural: str) -> dict[str, Json]:
        found = self._custom.list_namespaced_custom_object(labels.GROUP, labels.VERSION, NAMESPACE, plural)
        return {body["metadata"]["name"]: body for body in found["items"]}

    def _plain(self, listing: object) -> list[Json]:
        items: list[Json] = self._api.sanitize_for_serialization(listing)["items"]
        return items
