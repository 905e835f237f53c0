"""What the resources can say and this version cannot serve yet: one table of claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.relaxations import refuse_relaxations
from weft.domain.shape import EngineName
from weft.domain.spec import Balancing, DomainRule, RouterKind, SchedulerName
from weft.domain.texts.units import MIB, parse_quantity
from weft.engines import FrontRequest, LaunchRequest, adapter_for
from weft.engines.kv.nvlink import over_nvlink

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.shape import Plan
    from weft.domain.spec import EngineSpec, PlacementSpec, PoolSpec, RouterSpec, SplitSpec

LEAST_SHARED_MEMORY_BYTES = 64 * MIB  # /dev/shm as container runtimes mount it by themselves
# As in IsExtendedResourceName of Kubernetes (k8s.io/component-helpers), which kubelets ask of every device plugin
_OF_QUOTAS = "requests."
_OF_KUBERNETES = "kubernetes.io/"
_ANY_PODS = (("app", "engine"),)


def refuse_unsupported(spec: PoolSpec) -> None:
    """Raise `Invalid` for the first field that cannot be served, or may not, with what is allowed."""
    claims = (
        _spares_of_another(spec.placement),
        _stages_of_a_half(spec),
        (spec.kv.locality == "Required", "spec.kvTransfer.locality Required", "use Preferred or Any"),
        _half_at_a_gateway(spec),
        _racks_of_another(spec),
        _several_ports_behind_one(spec),
        *_router_claims(spec.router),
    )
    for unsupported, field, allowed in claims:
        if unsupported:
            raise Invalid(Reason.FeatureUnsupported, f"{field} is not supported yet: {allowed}")
    refuse_relaxations(spec)
    _refuse_accelerators_as_rdma(spec.engine)
    _refuse_rdma_of_a_quota(spec.engine)
    _refuse_rdma_of_kubernetes(spec.engine)
    _refuse_rdma_without_devices(spec)
    _refuse_huge_pages_alone(spec.engine)
    _refuse_little_shared_memory(spec.engine)


def _spares_of_another(placement: PlacementSpec) -> tuple[bool, str, str]:
    """Only who picks nodes can keep some of them free."""
    elsewhere = placement.scheduler is not SchedulerName.Default and placement.spare_nodes_per_domain > 0
    field = f"spec.placement.spareNodesPerDomain with scheduler.name {placement.scheduler}, which picks the nodes,"
    return elsewhere, field, "remove it"


def _half_at_a_gateway(spec: PoolSpec) -> tuple[bool, str, str]:
    """An endpoint picker pairs within one InferencePool, and one pool of ours has one role; a PDSplit has both."""
    half = spec.role.is_half and spec.router.kind is RouterKind.Gateway and not spec.pair
    field = f"spec.router.type Gateway for a pool of role {spec.role} alone"
    return half, field, "use a PDSplit, or spec.router.type None and your own front"


def _racks_of_another(spec: PoolSpec) -> tuple[bool, str, str]:
    """Only who picks nodes can keep both halves in one rack."""
    elsewhere = over_nvlink(spec) and spec.placement.scheduler is not SchedulerName.Default
    field = f"spec.kvTransfer.transport NVLink with scheduler.name {spec.placement.scheduler}, which picks the nodes,"
    return elsewhere, field, "use Auto, RDMA or TCP"


def refuse_a_half_alone_over_nvlink(spec: PoolSpec) -> None:
    """Raise `Invalid` for a pool that is half of no split: nobody forms a ComputeDomain for it and the other half."""
    if over_nvlink(spec) and not spec.pair:
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.kvTransfer.transport NVLink for a pool of role {spec.role} alone is not "
            "supported yet: use a PDSplit, "
            "whose halves share a ComputeDomain, or Auto, RDMA or TCP",
        )


def _several_ports_behind_one(spec: PoolSpec) -> tuple[bool, str, str]:
    """vllm-router 0.1.17 finds one port of each pod, and so do Services: the other ranks would stay idle."""
    several, half = spec.balancing is Balancing.MultiPort, spec.role.is_half
    if half:
        return several, f"spec.shape.dataParallelBalancing MultiPort for role {spec.role}", "use Hybrid or External"
    field = (
        f"spec.shape.dataParallelBalancing MultiPort with spec.router.type {spec.router.kind}, "
        "which knows one port of a pod,"
    )
    return (
        several and spec.router.kind is not RouterKind.Gateway,
        field,
        "use spec.router.type Gateway, or Hybrid or External",
    )


def _stages_of_a_half(spec: PoolSpec) -> tuple[bool, str, str]:
    """Only stages may leave a domain, and engines hand no KV over between them."""
    apart = spec.role.is_half and spec.placement.domain is DomainRule.Preferred
    field = f"spec.placement.domain Preferred with role {spec.role}, whose replicas have no pipeline stages,"
    return apart, field, "use Required"


def _refuse_accelerators_as_rdma(engine: EngineSpec) -> None:
    """Their count is the shape's, which would replace this one without a word; and they are no network."""
    counted = {known.resource for known in load().accelerators}
    named = next((each for each in engine.devices if each in counted), None)
    if named is not None:
        raise Invalid(
            Reason.SpecInvalid,
            f"spec.engine.resources.rdma.resource {named} is accelerators, which spec.shape counts: name what your "
            "RDMA device plugin offers, such as rdma/hca_shared_devices",
        )


def _refuse_rdma_of_a_quota(engine: EngineSpec) -> None:
    """Kubernetes takes no pod that asks for a resource by the name that a ResourceQuota has for it."""
    named = next((each for each in engine.devices if each.startswith(_OF_QUOTAS)), None)
    if named is not None:
        raise Invalid(
            Reason.SpecInvalid,
            f"spec.engine.resources.rdma.resource {named} is the name of a limit in a ResourceQuota, which no pod may "
            f"ask for: allowed is what nodes offer, such as {named.removeprefix(_OF_QUOTAS)}",
        )


def _refuse_rdma_of_kubernetes(engine: EngineSpec) -> None:
    """No device plugin may offer such a resource, so that no node would ever have it."""
    named = next((each for each in engine.devices if _OF_KUBERNETES in each), None)
    if named is not None:
        raise Invalid(
            Reason.SpecInvalid,
            f"spec.engine.resources.rdma.resource {named} is in a domain that Kubernetes keeps for itself, for which "
            "it takes no device plugin: name what yours offers, such as rdma/hca_shared_devices",
        )


def _refuse_rdma_without_devices(spec: PoolSpec) -> None:
    """Without a device in its pod an engine told to leave TCP alone has no wire at all."""
    if spec.role.is_half and spec.kv.transport == "RDMA" and not spec.engine.devices:
        raise Invalid(
            Reason.SpecInvalid,
            "spec.kvTransfer.transport RDMA needs RDMA devices in the pods: name them in "
            "spec.engine.resources.rdma, or use "
            "transport Auto or TCP",
        )


def _refuse_huge_pages_alone(engine: EngineSpec) -> None:
    """Kubernetes takes no pod that asks for huge pages and for neither CPU nor memory."""
    if engine.huge_pages and not {"cpu", "memory"} & dict(engine.resources).keys():
        raise Invalid(
            Reason.SpecInvalid,
            "spec.engine.resources with huge pages needs memory or cpu beside them, as "
            "Kubernetes requires of such pods",
        )


def _refuse_little_shared_memory(engine: EngineSpec) -> None:
    """A number without its unit leaves an engine less than a container has that says nothing."""
    wish = engine.shared_memory
    if wish is not None and parse_quantity(wish) < LEAST_SHARED_MEMORY_BYTES:
        raise Invalid(
            Reason.SpecInvalid,
            f"spec.engine.resources.sharedMemory {wish} is less than the 64Mi that every container has: unset it, or "
            "write a size with its unit, such as 16Gi",
        )


def refuse_unsupported_front(split: SplitSpec) -> None:
    """Raise `Invalid` for the first setting of a split's front that cannot be served, with what is allowed."""
    for unsupported, field, allowed in _router_claims(split.router):
        if unsupported:
            raise Invalid(Reason.FeatureUnsupported, f"{field} is not supported yet: {allowed}")


def refuse_a_front_of_pairs(router: RouterSpec, engine: EngineName) -> None:
    """Raise `Invalid` where Weft would have to start what pairs, and the engine has nothing that it renders."""
    if router.kind is RouterKind.Gateway and not load().engine(engine).sidecar_image:
        message = (
            f"spec.router.type Gateway of a PDSplit is not supported yet with engine {engine}: use VLLM, or Managed"
        )
        raise Invalid(Reason.FeatureUnsupported, message)
    if router.kind is RouterKind.Managed:
        adapter_for(engine).front(FrontRequest("namespace", router, _ANY_PODS, _ANY_PODS))


def refuse_mooncake_behind_its_front(split: SplitSpec, engine: EngineName) -> None:
    """Raise `Invalid` for the connector Mooncake behind a front that hands over nothing of it, as vLLM's do.

    vllm-router 0.1.17 asks for what Mooncake needs once, when it starts, and finds our engines afterwards.
    The sidecars behind a Gateway are rendered for NIXL. sglang-router names the prefill engine to decode, and no more:
    which library moves KV is between the two (`RequestWithBootstrap` in routers/http/pd_types.rs of its sources).
    """
    over_it = "Mooncake" in {split.prefill.kv.connector, split.decode.kv.connector}
    if over_it and engine is EngineName.VLLM and split.router.kind is not RouterKind.Nothing:
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.kvTransfer.connector Mooncake with spec.router.type {split.router.kind}, which does not transfer KV "
            f"with it on {engine}, is not supported yet: use NIXL, or spec.router.type None and your own front",
        )


def refuse_what_the_engine_cannot(spec: PoolSpec, plan: Plan, checkpoint: Precision) -> None:
    """Raise `Invalid` where the chosen engine could not be launched like this.

    The launch itself is the check, so that nothing is planned that cannot be rendered.
    """
    adapter = adapter_for(plan.engine.name)
    conflict = adapter.argument_conflict(spec.engine.args, plan.shape)
    if conflict is not None:
        raise Invalid(conflict.reason, conflict.message)
    adapter.launch(LaunchRequest(spec, plan, leader_host="leader", checkpoint=checkpoint))


def _router_claims(router: RouterSpec) -> tuple[tuple[bool, str, str], ...]:
    keys_unchecked = router.kind is RouterKind.Managed and router.api_key_secret is not None
    return (
        (
            keys_unchecked,
            "spec.router.apiKeySecretRef with a managed router",
            "remove it, or use spec.router.type None, where the engines ask for the key",
        ),
    )
