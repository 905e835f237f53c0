"""What the demo reads of its cluster once a second: resources, engine pods and nodes, as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from e2e.demo.scenario import NAMESPACE
from weft.catalog import load
from weft.domain import labels
from weft.fabric import build_fabric
from weft.observe.api_server.reading import Reader, resource_path
from weft.observe.objects.records import read_node, read_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

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

    def __init__(self, api: ApiClient) -> None:
        """Keep the connection."""
        self._reader = Reader(api)

    def look(self) -> World:
        """Everything, now."""
        read = [(read_pod(body), body) for body in self._all("v1", "pods")]
        pods = [
            (record, body["metadata"]["labels"].get(labels.POOL, "")) for record, body in read if record is not None
        ]
        nodes = [read_node(body) for body in self._all("v1", "nodes", namespace=None)]
        return World(
            pools=_by_name("InferencePool", self._all(labels.API_VERSION, "inferencepools")),
            splits=_by_name("PDSplit", self._all(labels.API_VERSION, "pdsplits")),
            engines=tuple(EnginePod(record, pool) for record, pool in pods),
            fabric=build_fabric(nodes, [record for record, _ in pods], load()),
            events=tuple(self._all("events.k8s.io/v1", "events")),
        )

    def _all(self, api_version: str, plural: str, namespace: str | None = NAMESPACE) -> list[Json]:
        pages = self._reader.pages(resource_path(api_version, plural, namespace), {})
        return [item for page in pages for item in page["items"]]


def _by_name(kind: str, bodies: list[Json]) -> dict[str, Json]:
    """Items of a list do not say their kind."""
    return {body["metadata"]["name"]: {"kind": kind, **body} for body in bodies}
