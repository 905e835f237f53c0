"""Groups without a link that joins all of them: their traffic crosses PCIe, or NICs, and waits for these.

Between more than two cards that PCIe alone joins, engines leave all-reduces to NCCL (vLLM and SGLang say so as they
start). Copies through PCIe reach about a quarter of the data sheet's rate: 18, 14 and 12 GB/s of 64 between two, four
and eight RTX PRO 6000, and 9 to 10 of 32 between L40S, but 1 to 2 on a host that sends them through its memory
(aiconfigurator 0.12.0's tables, messages of 8 MiB, traffic of a ring). See ADR 0111.

Plans never form groups that leave a node and its domain (`LeavesDomain`), but tables of measurements have them. The
kernels that engines have for all-reduces end where the link does; beyond it NCCL's take over. Its tree of g GPUs in n
nodes waits `base + 2 ((g / n - 1) x link + log2 n x network)` (`src/graph/tuning.cc` of NCCL 2.2x, protocol LL; links
through PCIe wait longer), and its rings use all NICs of a node together. What an exchange with experts sends beyond the
domain passes the NIC of each GPU, beside what the link carries: for a decoding token once to each rank that has one of
its experts, for those of a prompt once to each node, which passes it on over its link (DeepEP's kernels for low
latency, and for high throughput).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.perf.collectives import ranks_hit
from weft.perf.steps import NETWORK_FRACTION

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.hardware import Accelerator
    from weft.perf.replica import ReplicaModel

_TREE_SECONDS, _LINK_SECONDS, _PCIE_SECONDS, _NETWORK_SECONDS = 6.8e-6, 0.6e-6, 1.0e-6, 5.0e-6
_PCIE_FRACTION = 0.25
_PAIR = 2  # engines reduce between two cards by their own kernels


def reach(accelerator: Accelerator) -> int:
    """GPUs that communicate without a NIC: a domain, or a node whose cards are joined by PCIe."""
    return max(accelerator.domain_gpus, accelerator.gpus_per_node)


def across_domains(replica: ReplicaModel) -> ReplicaModel:
    """The replica with the rates and latencies of groups that leave its domain; unchanged where it holds them."""
    within = reach(replica.accelerator)
    if replica.shape.tensor_parallel > within:
        replica = _reducing_across(replica, within)
    replica = joined(replica)
    return _exchanging_across(replica, within) if replica.shape.domain_group_gpus > within else replica


def joined(replica: ReplicaModel) -> ReplicaModel:
    """The replica with rates and latencies of PCIe where that joins its tensor group; unchanged where a link does."""
    group = replica.shape.tensor_parallel
    if not replica.accelerator.over_pcie(group):
        return replica
    return replace(replica, efficiency=_over_pcie(replica.efficiency, group))


def _reducing_across(replica: ReplicaModel, within: int) -> ReplicaModel:
    """The replica with all-reduces by NCCL, whose latency covers both directions."""
    accelerator, group = replica.accelerator, replica.shape.tensor_parallel
    nodes = math.ceil(group / within)
    hops = (group / nodes - 1.0) * _LINK_SECONDS + math.log2(nodes) * _NETWORK_SECONDS
    rate = min(accelerator.scale_up_bandwidth, within * accelerator.network_bandwidth)
    waits = replace(replica.efficiency, collective_seconds=_TREE_SECONDS + 2.0 * hops, two_shot_seconds=0.0)
    return replace(replica, accelerator=replace(accelerator, scale_up_bandwidth=rate), efficiency=waits)


def _over_pcie(efficiency: Efficiency, group: int) -> Efficiency:
    """All-reduces of so many cards that PCIe joins."""
    slower = replace(efficiency, collective_bandwidth=_PCIE_FRACTION)
    if group == _PAIR:
        return slower
    return replace(slower, collective_seconds=_TREE_SECONDS + 2.0 * (group - 1.0) * _PCIE_SECONDS, two_shot_seconds=0.0)


def _exchanging_across(replica: ReplicaModel, within: int) -> ReplicaModel:
    """The replica whose dispatch and combine wait for the network, and take as long as the slower of link and NIC."""
    accelerator, efficiency = replica.accelerator, replica.efficiency
    beyond = 1.0 - within / replica.shape.domain_group_gpus
    by_nic = NETWORK_FRACTION * accelerator.network_bandwidth / (beyond * accelerator.scale_up_bandwidth)
    slower = replace(
        efficiency,
        exchange_seconds=efficiency.exchange_seconds + _NETWORK_SECONDS,
        exchange_bandwidth=min(efficiency.exchange_bandwidth, by_nic),
        prompt_exchange_bandwidth=min(efficiency.prompt_exchange_bandwidth, by_nic * _ranks_of_a_node(replica, within)),
    )
    return replace(replica, efficiency=slower)


def _ranks_of_a_node(replica: ReplicaModel, within: int) -> float:
    """How many of the ranks that hold one token's experts are on the same node, on average."""
    experts, group = replica.architecture.experts, replica.shape.domain_group_gpus
    if experts is None:
        return 1.0
    return ranks_hit(group, experts.per_token) / ranks_hit(math.ceil(group / within), experts.per_token)
