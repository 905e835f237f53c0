"""Input to the choice of a shape: the pool's wishes, the model, the traffic, and what the cluster has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.calibration import Calibrated
    from weft.domain.model import Architecture
    from weft.domain.shape import EngineName, EngineRelease, Plan, Shape
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Workload


@dataclass(frozen=True, slots=True)
class Supply:
    """Devices of one accelerator (a catalog name) that a pool may use, whether busy or free now.

    Racks of smaller nodes are a supply of their own, after that of the largest nodes. `memory_bytes` is what one device
    reports; `domain_gpus` is what pods of up to `gpus_per_node` have in the largest NVLink domain. `shared` devices are
    parts of GPUs (time-sliced, MPS, MIG). `alone` says that there is no second domain of them.
    """

    accelerator: str
    memory_bytes: int
    domain_gpus: int
    gpus_per_node: int
    shared: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Partner:
    """Constraints from the other half of a split: GPU generation, engine (`name`) and, once chosen, its shape."""

    generation: str
    name: EngineName
    shape: Shape | None = None


@made_often
@dataclass(frozen=True, slots=True)
class ShapeRequest:
    """The request for one choice. `workload` is the traffic to shape for, which may differ from the declared one.

    `incumbent` is the running plan, if it can still be placed; `engine` is the release that must be kept, if any;
    `partner` is the other half of a split, once anything of it is settled; `calibration` is what was learnt from the
    pool's metrics, the latest first. If it `stays`, the incumbent's shape is kept whatever another one costs, where
    both meet the SLO or neither does. `managed` says that a router of Weft's choice is before the halves.
    """

    spec: PoolSpec
    architecture: Architecture
    workload: Workload
    supplies: tuple[Supply, ...]
    incumbent: Plan | None = None
    engine: EngineRelease | None = None
    partner: Partner | None = None
    calibration: tuple[Calibrated, ...] = ()
    stays: bool = False
    managed: bool = False

    def __hash__(self) -> int:
        """Hash the fields that usually differ: hashing a whole spec takes longer than a cache lookup."""
        measured = tuple([each.updated for each in self.calibration])
        return hash((self.architecture.model_id, self.workload, self.engine, measured))

    @property
    def target_context_tokens(self) -> float:
        """The longest sequence that a replica must hold: `maxModelLen`, else the 95th percentiles of in and out."""
        if self.spec.model.max_context_tokens:
            return float(self.spec.model.max_context_tokens)
        long = self.workload.input_tokens_p95 + self.workload.output_tokens_p95
        return max(1.0, min(long, float(self.architecture.max_context_tokens)))
