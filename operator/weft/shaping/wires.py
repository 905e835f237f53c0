"""Checks of KV transports between the halves of a split that engines do not use by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.engines.kv.libfabric import EFA, over_efa
from weft.engines.kv.nvlink import NVLINK, over_nvlink

if TYPE_CHECKING:
    from weft.catalog.limits import Releases
    from weft.shaping.case import ShapeCase


def kv_goes_over_efa_where_wished(case: ShapeCase) -> Explanation | None:
    """Refuse a replica that cannot send KV over Amazon's EFA although the pool asks for it."""
    accelerator = case.option.accelerator
    if not over_efa(case.request.spec):
        return None
    if accelerator.vendor != "nvidia":
        sentence = f"spec.kvTransfer.transport EFA moves memory of NVIDIA GPUs, not of {accelerator.name}"
        return Explanation(Reason.EngineUnsupported, f"{sentence}; allowed: Auto, RDMA or TCP")
    return _unknown(case, EFA, case.limits.efa)


def kv_goes_over_nvlink_where_wished(case: ShapeCase) -> Explanation | None:
    """Refuse a replica that cannot send KV over NVLink to another node although the pool asks for it.

    The driver gives a node's only channel to one claim, and each pod has a claim of its own (`compute-domain` plugin,
    `assertImexChannelNotAllocated`): two pods of a split never share a node.
    """
    shape, supply, accelerator = case.option.shape, case.option.supply, case.option.accelerator
    if not over_nvlink(case.request.spec):
        return None
    if accelerator.domain_gpus <= accelerator.gpus_per_node:
        sentence = f"spec.kvTransfer.transport NVLink: that of {accelerator.name} ends at the node"
        return Explanation(Reason.EngineUnsupported, f"{sentence}; allowed: racks such as GB200, or Auto, RDMA or TCP")
    if (lacks := _unknown(case, NVLINK, case.limits.nvlink) or _in_another_rack(case)) is not None:
        return lacks
    if shape.gpus_per_pod == supply.gpus_per_node:
        return None
    return Explanation(
        Reason.ShapeInvalid,
        "spec.kvTransfer.transport NVLink gives a node to one pod, and one of "
        f"{counted(shape.gpus_per_pod, 'GPU')} would "
        f"leave others idle; allowed: {counted(supply.gpus_per_node, 'GPU')} in each pod",
    )


def _in_another_rack(case: ShapeCase) -> Explanation | None:
    """Refuse another accelerator than the other half's: both halves have to be in one rack, which has one kind."""
    partner, own = case.request.partner, case.option.shape.accelerator
    if partner is None or partner.shape is None or partner.shape.accelerator == own:
        return None
    return Explanation(
        Reason.PairIncompatible,
        f"spec.kvTransfer.transport NVLink keeps both halves in one rack, none has {own} "
        f"and {partner.shape.accelerator}; "
        "allow both halves one of them in spec.placement.accelerators",
    )


def _unknown(case: ShapeCase, transport: str, able: Releases | None) -> Explanation | None:
    if able is not None and able.include(case.engine_version):
        return None
    allowed = "Auto, RDMA or TCP" if able is None else able
    return Explanation(
        Reason.EngineUnsupported,
        (f"{case.release} does not know spec.kvTransfer.transport {transport}; allowed: {allowed}"),
    )
