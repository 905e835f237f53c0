"""Why a shape's DP ranks cannot be load-balanced as the pool asks: limits of pods, ports and domains (ADR 0037)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import Balancing

if TYPE_CHECKING:
    from weft.shaping.case import ShapeCase

FEWEST_RANKS, MOST_PORTS = 2, 8  # of vLLM's supervisor, and of an InferencePool of the Gateway API Inference Extension


def ranks_are_balanced_as_wished(case: ShapeCase) -> Explanation | None:
    """Refuse ranks for which the wished balancing has too few nodes or ports; nothing where nothing is balanced."""
    shape = case.option.shape
    match case.request.spec.balances(shape):
        case Balancing.External:
            return _too_few_nodes(case)
        case Balancing.MultiPort if not FEWEST_RANKS <= shape.ranks_per_pod <= MOST_PORTS:
            return Explanation(
                Reason.ShapeInvalid,
                f"spec.shape.dataParallelBalancing MultiPort with {shape.ranks_per_pod} data-parallel ranks in a pod; "
                f"allowed: {FEWEST_RANKS} to {MOST_PORTS} of them, which each take a port, or Hybrid or External",
            )
    return None


def _too_few_nodes(case: ShapeCase) -> Explanation | None:
    """Refuse more pods than the domain has nodes: each pod of a replica needs a node, and all ranks one domain."""
    shape, supply = case.option.shape, case.option.supply
    nodes = supply.domain_gpus // supply.gpus_per_node
    if shape.pods <= nodes:
        return None
    return Explanation(
        Reason.LeavesDomain,
        f"spec.shape.dataParallelBalancing External puts {shape.data_parallel} data-parallel ranks on as many nodes, "
        f"and an NVLink domain of {supply.accelerator} has {nodes}; allowed: as many ranks, or Internal or Hybrid",
    )
