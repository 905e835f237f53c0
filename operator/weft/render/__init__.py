"""Render an assignment and its engine into Kubernetes objects, as plain dicts.

A replica. `pod`: its pods. `container`: one container of them. `warm_up`: the one that downloads weights. `sidecar`:
    the one behind a picker that calls prefill. `security`: what they may do. `compute_domain`: what shares NVLink.
    `revision`: when a replica is outdated.
Around it. `service`: how others reach it. `front`: a managed router. `gateway`: a route of a Gateway. `route_status`:
    what Gateways say of it. `budget`: how many may be evicted at once. `child`: the pools of a split.
All objects. `names`: what they are called. `metadata`: labels, owners and a hash. `comparison`: whether one is as it
    was rendered. `ownership`: whose one is. `facts`: what the catalog says for them.
"""

from __future__ import annotations

from weft.render.budget import render_disruption_budget, replicas_spared
from weft.render.child import pair_of, render_child_pool, render_child_seed
from weft.render.comparison import has_all_of, surplus
from weft.render.compute_domain import (
    COMPUTE_DOMAIN,
    compute_domain_name,
    domain_name_of,
    domain_owner_of,
    is_of,
    render_compute_domain,
    render_shared_domain,
    shared_by,
    shared_domain_name,
)
from weft.render.front import (
    ROUTER_ACCOUNT,
    FrontSpec,
    front_engine,
    front_image,
    front_pair,
    front_program,
    render_front,
    render_front_budgets,
)
from weft.render.gateway import (
    ENDPOINTS,
    ENDPOINTS_GROUP,
    ROUTE,
    ROUTE_GROUP,
    render_endpoints,
    render_route,
    show_chosen,
    show_pair,
    shown_pair,
)
from weft.render.metadata import Json, pool_labels, split_labels
from weft.render.names import front_name, place_in_name, pod_name, ranks_service_name, replica_name, service_url
from weft.render.ownership import why_taken
from weft.render.pod import ENGINE_CONTAINER, render_pods, told_by_name
from weft.render.revision import pair_revision, revision, revision_asked
from weft.render.route_status import is_taken, verdicts
from weft.render.service import (
    asks_every_pod,
    chooses_front,
    chooses_replicas,
    leader_selector,
    only_front,
    paired_selector,
    render_ranks_service,
    render_service,
    render_split_service,
    routed_selector,
)
from weft.render.sidecar import SIDECAR_CONTAINER, SIDECAR_PORT
from weft.render.warm_up import WARM_UP_CONTAINER

__all__ = [
    "COMPUTE_DOMAIN",
    "ENDPOINTS",
    "ENDPOINTS_GROUP",
    "ENGINE_CONTAINER",
    "ROUTE",
    "ROUTER_ACCOUNT",
    "ROUTE_GROUP",
    "SIDECAR_CONTAINER",
    "SIDECAR_PORT",
    "WARM_UP_CONTAINER",
    "FrontSpec",
    "Json",
    "asks_every_pod",
    "chooses_front",
    "chooses_replicas",
    "compute_domain_name",
    "domain_name_of",
    "domain_owner_of",
    "front_engine",
    "front_image",
    "front_name",
    "front_pair",
    "front_program",
    "has_all_of",
    "is_of",
    "is_taken",
    "leader_selector",
    "only_front",
    "pair_of",
    "pair_revision",
    "paired_selector",
    "place_in_name",
    "pod_name",
    "pool_labels",
    "ranks_service_name",
    "render_child_pool",
    "render_child_seed",
    "render_compute_domain",
    "render_disruption_budget",
    "render_endpoints",
    "render_front",
    "render_front_budgets",
    "render_pods",
    "render_ranks_service",
    "render_route",
    "render_service",
    "render_shared_domain",
    "render_split_service",
    "replica_name",
    "replicas_spared",
    "revision",
    "revision_asked",
    "routed_selector",
    "service_url",
    "shared_by",
    "shared_domain_name",
    "show_chosen",
    "show_pair",
    "shown_pair",
    "split_labels",
    "surplus",
    "told_by_name",
    "verdicts",
    "why_taken",
]
