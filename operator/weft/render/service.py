"""Services: one to reach a pool or a split, and a headless one for replicas of several pods."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.spec import Balancing, RouterKind
from weft.engines import engine_label
from weft.render.metadata import child_metadata, pool_labels, signed, split_labels
from weft.render.names import PORT, ranks_service_name
from weft.render.pod import COMPONENT, ENGINE_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.shape import EngineName
    from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
    from weft.domain.spec import Pairs, PoolSpec
    from weft.render.metadata import Json

NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


def leader_selector(pool: ResourceKey) -> Pairs:
    """Labels of the first pod of each replica, for `status.selector`, which must not average over ranks."""
    return ((labels.POOL_UID, pool.uid), (labels.RANK, "0"))


def routed_selector(pool: ResourceKey, *, every_pod: bool = False) -> Pairs:
    """Labels of the pods that may get requests: the first of each replica, or with `every_pod` all that take some.

    The UID excludes pods of an earlier pool of that name. Routers of a pool carry it and the routed label, but no rank.
    """
    return ((labels.POOL_UID, pool.uid), _which(every_pod=every_pod), (labels.ROUTED, "true"))


def paired_selector(split: ResourceKey, pair: str, *, every_pod: bool, paired: bool) -> Pairs:
    """Labels of pods of one generation of a split that a picker may choose; without `paired` they match no pod.

    A picker pairs freely among them, so there is never more than one generation.
    """
    routed = (labels.ROUTED, "true" if paired else "false")
    return ((labels.SPLIT_UID, split.uid), (labels.PAIR, pair), _which(every_pod=every_pod), routed)


def _which(*, every_pod: bool) -> tuple[str, str]:
    return (COMPONENT, ENGINE_CONTAINER) if every_pod else (labels.RANK, "0")


def asks_every_pod(spec: PoolSpec | None) -> bool:
    """Whether every pod of a replica is asked for its own data-parallel ranks, and not the first one for all."""
    return spec is not None and spec.balancing is not Balancing.Internal


def render_service(
    pool: PoolRecord, only: Mapping[str, str] = NOTHING_MORE, *, every_pod: bool = False, directly: bool = False
) -> Json:
    """The pool's Service, for its replicas or its managed routers, of the latter only those with the labels `only`.

    Of replicas it chooses the first pods, or `every_pod` that takes requests. With `directly` it is for them though
    there are to be routers.
    """
    managed = pool.router_kind is RouterKind.Managed and not directly
    replicas = dict(routed_selector(pool.key, every_pod=every_pod))
    return _service(pool.key, pool_labels(pool), {**front_selector(pool.key), **only} if managed else replicas)


def chooses_replicas(service: Json, pool: ResourceKey) -> bool:
    """Whether a Service as `render_service` makes it chooses replicas of a pool, and no routers."""
    asked = dict(service["spec"].get("selector") or {})
    return any(asked == dict(routed_selector(pool, every_pod=every_pod)) for every_pod in (False, True))


def only_front(engine: EngineName, *, beside: bool) -> dict[str, str]:
    """Labels that only one of two routers of a pool has; the first is known by one that it always had."""
    return {labels.ENGINE: engine_label(engine)} if beside else {labels.ROUTED: "true"}


def chooses_front(service: Json, engine: EngineName, *, beside: bool) -> bool:
    """Whether a Service as `render_service` makes it may choose this one of a pool's two routers.

    A Service without a selector, as somebody may leave it, chooses none.
    """
    has = {labels.ENGINE: engine_label(engine), **only_front(engine, beside=beside)}
    asked = dict(service["spec"].get("selector") or {})
    return asked.pop(labels.FRONT_OF, None) is not None and asked.items() <= has.items()


def render_split_service(split: SplitRecord, *, paired: bool, only: str = "") -> Json:
    """The split's Service. It selects routers only while both halves of a pair answer, and nothing otherwise.

    `only` is the one pair whose router it selects, if another router serves no complete pair.
    """
    one = {labels.PAIR: only} if only else {}
    selector = {**front_selector(split.key), **one, labels.ROUTED: "true" if paired else "false"}
    return _service(split.key, split_labels(split), selector)


def render_ranks_service(pool: PoolRecord) -> Json:
    """DNS names for the pods of a replica before any is ready: they need each other to become ready."""
    meta = child_metadata(ranks_service_name(pool.key), pool.key, pool_labels(pool))
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {labels.POOL_UID: pool.key.uid, COMPONENT: ENGINE_CONTAINER},
    }
    return signed({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})


def front_selector(owner: ResourceKey) -> dict[str, str]:
    """Labels of the pods of a managed router."""
    return {labels.FRONT_OF: owner.uid}


def _service(owner: ResourceKey, tags: dict[str, str], selector: dict[str, str]) -> Json:
    # by name: the ports of engines and routers differ
    ports = [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}]
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(owner.name, owner, tags),
        "spec": {"type": "ClusterIP", "selector": selector, "ports": ports},
    }
    return signed(body)
