"""Clusters of any size, made up: boards and racks of GPUs, pools in place on them, and pods of others in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.records import GPU, START, in_clique, node_record, pod_record, pool_record, pool_spec
from weft.domain.cluster import NodeRecord, PodPhase, PodRecord
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.spec import PlacementSpec, PoolSpec, RolloutSpec
from weft.domain.texts.units import GIB
from weft.domain.workload import Slo, Workload

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment

BOARD_GPUS, TRAY_GPUS, TRAYS = 8, 4, 18
NODES_PER_POOL = 5
RACKS_PER_THOUSAND = 12
EXTERNAL_EVERY, ON_RACKS_EVERY = 10, 10
EXTERNAL_REPLICAS, MOST_REPLICAS = 10, 24
FOREIGN_EVERY, FOREIGN_GPUS = 20, 4
BOARDS_PER_LEAF, LEAVES_PER_SPINE, ZONES = 16, 8, 3


@dataclass(frozen=True, slots=True)
class Kind:
    """Pools of one model: about what one replica answers per second, so that rates make fleets of all sizes."""

    model: str
    accelerator: str
    capacity: float
    fewest: int
    most: int


ON_BOARDS = (
    Kind("meta-llama/Llama-3.1-8B-Instruct", "H200", 20.0, 4, 20),
    Kind("Qwen/Qwen3-32B", "H200", 6.0, 4, 20),
    Kind("meta-llama/Llama-3.3-70B-Instruct", "H200", 4.4, 4, 14),
    Kind("Qwen/Qwen3-30B-A3B", "H200", 24.0, 4, 20),
)
ON_RACKS = (
    Kind("meta-llama/Llama-3.1-405B-Instruct", "GB200", 4.0, 1, 3),
    Kind("meta-llama/Llama-3.3-70B-Instruct", "GB200", 13.0, 3, 9),
)
LENGTHS = ((1000, 200), (700, 250), (1400, 160), (1000, 240), (800, 200))  # mean tokens in and out


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster of 8 GPUs for each of `nodes`: a rack of 18 trays of 4 takes the place of 9 boards of 8."""

    nodes: int

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * BOARD_GPUS

    @property
    def racks(self) -> int:
        """Racks of 18 trays with 4 GPUs."""
        return self.nodes * RACKS_PER_THOUSAND // 1000

    @property
    def boards(self) -> int:
        """Nodes with 8 GPUs of their own."""
        return self.nodes - self.racks * TRAYS * TRAY_GPUS // BOARD_GPUS

    @property
    def pools(self) -> int:
        """One for five nodes."""
        return self.nodes // NODES_PER_POOL


def nodes_of(size: Size) -> tuple[NodeRecord, ...]:
    """Sorted by name, as a cluster's cache lists them."""
    boards = [_node(f"board-{index:05}", index, "NVIDIA-H200", BOARD_GPUS) for index in range(size.boards)]
    trays = [
        _node(f"rack-{rack:03}-tray-{tray:02}", rack * TRAYS + tray, "NVIDIA-GB200", TRAY_GPUS, f"c{rack:03}.1")
        for rack in range(size.racks)
        for tray in range(TRAYS)
    ]
    return (*boards, *trays)


def _node(name: str, index: int, product: str, gpus: int, clique: str = "") -> NodeRecord:
    """With the labels that a node of a managed cluster has."""
    leaf = index // BOARDS_PER_LEAF
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "network.topology.nvidia.com/leaf": f"leaf-{leaf}",
        "network.topology.nvidia.com/spine": f"spine-{leaf // LEAVES_PER_SPINE}",
        "node.kubernetes.io/instance-type": "gpu-large",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.present": "true",
        "topology.kubernetes.io/region": "one",
        "topology.kubernetes.io/zone": f"one-{leaf // LEAVES_PER_SPINE % ZONES}" if not clique else "one-0",
        **(in_clique(clique) if clique else {}),
    }
    offers = (("cpu", 192.0), ("memory", 2000.0 * GIB), (GPU, float(gpus)))
    return node_record(name, product, gpus, labels, offers=offers)


def pools_of(size: Size) -> tuple[PoolRecord, ...]:
    """No two have the same rate; one in ten is scaled by somebody else, one in ten runs on racks."""
    return tuple(
        pool_record(index, spec_of(index), f"team-{index % 40}", priority=index % 4, created=START - index)
        for index in range(size.pools)
    )


def spec_of(index: int) -> PoolSpec:
    """The spec of one pool."""
    racks = index % ON_RACKS_EVERY == 0
    kinds = ON_RACKS if racks else ON_BOARDS
    kind = kinds[index // ON_RACKS_EVERY % len(kinds)] if racks else kinds[index % len(kinds)]
    replicas = kind.fewest + index * 7 % (kind.most - kind.fewest + 1)
    tokens_in, tokens_out = LENGTHS[index % len(LENGTHS)]
    rate = kind.capacity * (replicas - 0.5) / 1.1 + index * 1e-4
    external = is_external(index)
    return pool_spec(
        kind.model,
        workload=Workload(rate, tokens_in, tokens_out, 3.0 * tokens_in, 2.5 * tokens_out),
        slo=Slo(ttft=((95, 1.0),), tpot=((95, 0.05),)),
        placement=PlacementSpec(accelerators=(kind.accelerator,)),
        scaling=ScalingSpec(
            mode=ScalingMode.External if external else ScalingMode.Auto,
            replicas=EXTERNAL_REPLICAS if external else None,
            max_replicas=MOST_REPLICAS,
            scale_down_delay_seconds=60.0,
        ),
        rollout=RolloutSpec(max_unavailable=1),
    )


def is_external(index: int) -> bool:
    """Whether somebody else says how many replicas a pool has."""
    return index % EXTERNAL_EVERY == EXTERNAL_EVERY // 2


def foreign_pods(nodes: tuple[NodeRecord, ...]) -> tuple[PodRecord, ...]:
    """Jobs of others on every twentieth board."""
    boards = [node for node in nodes if node.name.startswith("board")]
    return tuple(_foreign(node) for node in boards[::FOREIGN_EVERY])


def _foreign(node: NodeRecord) -> PodRecord:
    name = f"job-{node.name}"
    return PodRecord(
        "batch", name, f"uid-{name}", PodPhase.Running, node.name, ((GPU, FOREIGN_GPUS),), ready=True, created=START
    )


def pod_of(pool: PoolRecord, assignment: Assignment, rank: int) -> PodRecord:
    """One pod of a replica, up and ready."""
    return pod_record(pool, assignment, rank, routed=True, ip="10.0.0.1")


def scaled(pool: PoolRecord, more: int) -> PoolRecord:
    """An external pool whose owner asks for so many replicas more."""
    if pool.spec is None or pool.spec.scaling.replicas is None:
        return pool
    scaling = replace(pool.spec.scaling, replicas=pool.spec.scaling.replicas + more)
    return replace(pool, spec=replace(pool.spec, scaling=scaling))
