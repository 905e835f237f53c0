"""The Deployment of a managed router, and how many of its pods may be evicted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.engines import FrontRequest, adapter_for, engine_label
from weft.render.container import file_annotations, render_container, render_volumes, router_resources
from weft.render.facts import router_image
from weft.render.metadata import child_metadata, signed
from weft.render.names import front_name
from weft.render.pod import COMPONENT
from weft.render.security import pod_security
from weft.render.service import front_selector, routed_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.shape import EngineName
    from weft.domain.snapshot import ResourceKey
    from weft.domain.spec import RouterSpec
    from weft.engines import ContainerLaunch
    from weft.render.metadata import Json

# An administrator creates it once per namespace; Weft writes no RBAC objects.
ROUTER_ACCOUNT = "weft-router"
_CONTAINER = "router"


@dataclass(frozen=True, slots=True)
class FrontSpec:
    """What a router serves: one pool, or a prefill and a decode pool in this order, with their `pair`.

    It chooses among the first pods of replicas, or every pod that takes requests; with `alone` only of its own engine.
    `beside` marks a second router of a pool, whose first one has the name without an engine. `engine_image` is that
    of the pods behind it: some engines have their router in it. `image` is what the router already runs, and keeps.
    """

    pools: tuple[ResourceKey, ...]
    replicas: int
    drain_seconds: float
    pair: str = ""
    every_pod: bool = False
    engine_image: str = ""
    alone: bool = False
    beside: bool = False
    image: str = ""


def render_front(
    owner: ResourceKey, engine: EngineName, router: RouterSpec, front: FrontSpec, tags: dict[str, str]
) -> Json:
    """The engine's own router for one pool, or for a prefill/decode pair."""
    one = {labels.PAIR: front.pair} if front.pair else {}
    name = engine_label(engine)
    apart = {**one, labels.ENGINE_NAME: name} if front.alone else one
    behind = [(*routed_selector(pool, every_pod=front.every_pod), *apart.items()) for pool in front.pools]
    request = FrontRequest(
        namespace=owner.namespace,
        router=router,
        prefill_or_all=behind[0],
        decode=behind[1] if len(behind) > 1 else (),
        drain_seconds=int(front.drain_seconds),
    )
    adapter = adapter_for(engine)
    launch = adapter.front(request)
    own = front.engine_image if request.decode and adapter.pairs_in_its_image else router_image(engine)
    chosen = {**front_selector(owner), **one, **({labels.ENGINE: name} if front.beside else {})}
    pod_tags = {**tags, **chosen, **_told_apart(front, name), COMPONENT: "router"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(front_name(owner, name if front.beside else front.pair), owner, {**tags, **one}),
        "spec": {
            "replicas": front.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": _metadata(launch, pod_tags),
                "spec": _pod(launch, router, front.image or router.image or own),
            },
        },
    }
    return signed(body)


def _told_apart(front: FrontSpec, engine: str) -> dict[str, str]:
    """Labels by which a Service chooses one of two routers of a pool: the first one keeps the labels it always had."""
    own = {labels.ENGINE: engine} if front.alone else {}
    return own if front.beside else {**own, labels.ROUTED: "true"}


def front_engine(deployment: Json) -> str:
    """The engine whose replicas alone a Deployment of `render_front` serves; empty if it serves any."""
    found: str = deployment["spec"]["template"]["metadata"]["labels"].get(labels.ENGINE, "")
    return found


def front_pair(deployment: Json) -> str:
    """The pair of halves that a Deployment of `render_front` serves; empty if it serves a pool."""
    found: str = deployment["spec"]["selector"]["matchLabels"].get(labels.PAIR, "")
    return found


def front_program(deployment: Json) -> tuple[str, ...]:
    """The router that a Deployment of `render_front` runs: its command without options, if it has one."""
    command: list[str] = _router(deployment).get("command") or []
    return tuple(takewhile(lambda word: not word.startswith("--"), command))


def front_image(deployment: Json) -> str:
    """The image of the router in a Deployment of `render_front`; empty if it has none."""
    image: str = _router(deployment).get("image") or ""
    return image


def _router(deployment: Json) -> Json:
    """The router's container, wherever a webhook put those that it injects."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    found: Json = next((each for each in containers if each["name"] == _CONTAINER), {})
    return found


def render_front_budgets(owner: ResourceKey, fronts: Sequence[Json], tags: dict[str, str]) -> list[Json]:
    """A PodDisruptionBudget for the routers of each front, of which one goes at a time; a single one may always go.

    So no front loses its last router while it has several, and one whose routers do not start keeps none of another.
    `fronts` are Deployments of `render_front` of one resource.
    """
    return [_budget(owner, front, tags, alone=len(fronts) == 1) for front in fronts]


def _budget(owner: ResourceKey, front: Json, tags: dict[str, str], *, alone: bool) -> Json:
    """The budget of one front; the first one of a pool is chosen by a label that one beside it does not have."""
    pods = front["spec"]["template"]["metadata"]["labels"]
    first = {labels.ROUTED: pods[labels.ROUTED]} if not alone and labels.ROUTED in pods else {}
    spec = {
        "minAvailable": front["spec"]["replicas"] - 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {**front["spec"]["selector"]["matchLabels"], **first}},
    }
    meta = child_metadata(front["metadata"]["name"], owner, tags)
    return signed({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})


def _metadata(launch: ContainerLaunch, tags: dict[str, str]) -> Json:
    """Labels, and the files of the launch as annotations."""
    notes = file_annotations(launch)
    return {"labels": tags, **({"annotations": notes} if notes else {})}


def _pod(launch: ContainerLaunch, router: RouterSpec, image: str) -> Json:
    container = {**render_container(launch, _CONTAINER), "image": image, **router_resources(router)}
    return {
        "serviceAccountName": ROUTER_ACCOUNT,
        "automountServiceAccountToken": True,  # it watches the pods of its namespace
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": launch.grace_seconds,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": render_volumes(launch),
    }
