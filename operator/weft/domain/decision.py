"""The result of `decide`: values with reasons per pool and per split, ready to be written into status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.domain.status import SplitStatus
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.reasons import Explanation
    from weft.domain.room import DomainRoom
    from weft.domain.shape import EngineRelease, Shape
    from weft.domain.snapshot import ResourceKey
    from weft.domain.spec import Pairs
    from weft.domain.status import Condition, Observed, PoolStatus
    from weft.domain.transport import Transport


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """Missing capacity: `groups` groups, each of `nodes` nodes in one NVLink domain with `gpus_per_node` free on each.

    A group is a replica, or a pipeline stage where stages may spread over domains. `besides` is what each of the nodes
    needs that others with free GPUs lack, as quantities by resource. So many groups (`on_free_gpus`) need nothing else,
    and no node has that.
    """

    accelerator: str
    groups: int
    nodes: int
    gpus_per_node: int
    besides: Pairs = ()
    on_free_gpus: int = 0

    @property
    def domain_gpus(self) -> int:
        """GPUs that one NVLink domain must have free for a group."""
        return self.nodes * self.gpus_per_node

    @property
    def gpus(self) -> int:
        """GPUs of all groups, but for those that are free."""
        return (self.groups - self.on_free_gpus) * self.domain_gpus


@made_often
@dataclass(frozen=True, slots=True)
class PoolDecision:
    """The next status of one pool, as far as decide owns it.

    `status` replaces the persisted one; `recommended` is what Auto would run (written in External mode too);
    `conditions` are Planned, Placed, SLOMet and NetworkBound, ArgumentsUnknown where the engine's release lacks some of
    the user's arguments, ImageMismatched where the name of its image says something else, Relaxed where pods exceed the
    `restricted` Pod Security level, TransfersFailing where some decode replica cannot fetch KV, and CapacityRequested
    while there is a `request`;
    `events` are things that happened in this pass (a replica failed, a scale-up) and deserve a Kubernetes event.
    """

    key: ResourceKey
    generation: int
    status: PoolStatus
    recommended: int
    conditions: tuple[Condition, ...]
    events: tuple[Explanation, ...] = ()
    request: CapacityRequest | None = None


@dataclass(frozen=True, slots=True)
class SplitDecision:
    """The next status of one split: the engine release of both sides, desired counts, figures and conditions.

    `transport` is what carries KV, None without a plan; `kv_layouts` as in `SplitStatus`.
    """

    key: ResourceKey
    generation: int
    engine: EngineRelease | None
    prefill_desired: int
    decode_desired: int
    conditions: tuple[Condition, ...]
    events: tuple[Explanation, ...] = ()
    prefill_recommended: int | None = None
    decode_recommended: int | None = None
    prefill_shape: Shape | None = None
    decode_shape: Shape | None = None
    observed: Observed | None = None
    transport: Transport | None = None
    kv_layouts: int = 0

    @property
    def status(self) -> SplitStatus:
        """What is persisted for later passes."""
        return SplitStatus(self.engine, self.kv_layouts)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of one pass. `memory` goes into the next snapshot.

    `wake_after_seconds` is how soon time alone may change an answer, None where it does not. `rooms` is what stays free
    in every NVLink domain, `notes` what looked odd while the nodes were read.
    """

    pools: tuple[PoolDecision, ...]
    splits: tuple[SplitDecision, ...] = ()
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    wake_after_seconds: float | None = None
    rooms: tuple[DomainRoom, ...] = ()
    notes: tuple[Explanation, ...] = ()
