"""A split behind a Gateway: an endpoint picker pairs freely among the pods that its InferencePool selects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.holding.pairs import HALVES, Pair, split_body
from weft.domain import labels
from weft.render import is_taken, shown_pair

if TYPE_CHECKING:
    from tests.holding.operation import Json
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord

GATEWAY = {"type": "Gateway", "gateway": {"parentRefs": [{"name": "edge"}], "endpointPickerRef": {"name": "picker"}}}
GROUP = "inference.networking.k8s.io/v1"


def picked_body(prefill: int, decode: int, **more: Any) -> Json:  # noqa: ANN401 - any field
    """A PDSplit `duo` whose Gateway is somebody else's."""
    return split_body(prefill, decode, **{"router": GATEWAY, **more})


@dataclass
class PickedPair(Pair):
    """A Gateway that is `there` takes the route, as soon as there is one.

    `lacks` is why its kinds cannot be read, if so.
    """

    lacks: Explanation | None = None
    there: bool = True

    def pools(self) -> tuple[PoolRecord, ...]:
        return tuple(self._with_what_is_seen(each) for each in super().pools())

    def pool(self, name: str) -> PoolRecord:
        return self._with_what_is_seen(super().pool(name))

    def _with_what_is_seen(self, record: PoolRecord) -> PoolRecord:
        known = next((each for each in self.cluster.objects_of("team") if each.api_version == GROUP), None)
        if self.lacks is not None:
            return replace(record, lacks=self.lacks)
        routes = [each.body for each in self.cluster.objects_of("team") if each.kind == "HTTPRoute"]
        return replace(record, shown=shown_pair(known), route_taken=any(map(is_taken, routes)))

    def route(self) -> None:
        super().route()
        kinds = {each.kind for each in self.cluster.objects_of("team")}
        if self.endpoints() is None or "HTTPRoute" not in kinds or not self.there:
            return
        accepted = {"type": "Accepted", "status": "True"}
        route = self.cluster.object("HTTPRoute", "duo")
        route["status"] = {"parents": [{"parentRef": {"name": "edge"}, "conditions": [accepted]}]}

    def endpoints(self) -> Json | None:
        """The InferencePool that the picker follows."""
        found = (each for each in self.cluster.objects_of("team") if each.name == "duo" and each.api_version == GROUP)
        record = next(found, None)
        return record.body if record is not None else None

    def shown(self, half: str) -> list[str]:
        """Pods of one half that the picker may choose."""
        endpoints = self.endpoints()
        if endpoints is None:
            return []
        wanted = {**endpoints["spec"]["selector"]["matchLabels"], labels.POOL: f"duo-{half}"}
        return [
            name
            for name, pod in self.cluster.pods.items()
            if wanted.items() <= pod["metadata"]["labels"].items() and self.cluster.serves(pod)
        ]

    def shown_pairs(self) -> set[str]:
        """Generations that it could hand KV over between."""
        names = [name for half in HALVES for name in self.shown(half)]
        return {self.cluster.pods[name]["metadata"]["labels"][labels.PAIR] for name in names}

    def capacity(self) -> float:
        """The part of the desired pairs that requests reach."""
        desired = {half: self.pool(f"duo-{half}").status.desired_replicas for half in HALVES}
        return min(len(self.shown(half)) / desired[half] for half in HALVES)
