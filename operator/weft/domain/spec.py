"""What the user asked for, parsed: an InferencePool's or a PDSplit's spec as frozen plain values.

`api/` validates the YAML and builds these; everything inside Weft reads only these. Maps are tuples of pairs, so that
every value is hashable.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.domain.texts.units import parse_quantity
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from typing import Self

    from weft.domain.hardware import Precision
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.shape import EngineName, Shape
    from weft.domain.workload import Role, Slo, Workload

Pairs = tuple[tuple[str, str], ...]


class SourceKind(StrEnum):
    """The kind of source of a model's weights."""

    HuggingFace = "HuggingFace"
    PVC = "PVC"
    Image = "Image"
    URI = "URI"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the weights are. `location` is the repository, claim, image reference or URI; `path` is inside it."""

    kind: SourceKind
    location: str
    path: str = ""
    revision: str | None = None
    token_secret: tuple[str, str] | None = None  # (Secret name, key)
    secret: str | None = None  # Secret whose keys are the credentials of an object store
    pull_policy: str | None = None  # of an image volume
    cache: str | None = None  # claim that keeps downloaded weights
    warm_up: bool = False  # whether an init container downloads, before the engine runs


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model. `config_json` is the content of a `config.json`, inline or already read from its ConfigMap."""

    model_id: str
    served_names: tuple[str, ...] = ()
    source: ModelSource | None = None
    config_json: str | None = None
    config_map: tuple[str, str] | None = None  # (ConfigMap name, key)
    precision: Precision | None = None
    precisions: tuple[Precision, ...] = ()  # allowed ones to choose from
    max_context_tokens: int | None = None
    adapters: Pairs = ()
    adapter_rank: int | None = None  # the largest LoRA rank that they declare


HUGE_PAGES = "hugepages-"  # prefix of resource names, before the page size


@made_often
@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The user's engine settings; None means that Weft chooses.

    `resources` are per pod: plain Kubernetes quantities by resource name.
    """

    name: EngineName | None = None
    version: str | None = None
    image: str | None = None
    args: tuple[str, ...] = ()
    env: Pairs = ()
    resources: Pairs = ()
    shared_memory: str | None = None
    speculative_json: str | None = None
    distributed: str = "Native"

    @property
    def devices(self) -> tuple[str, ...]:
        """Extended resources per pod, which are network devices, as accelerators follow from the shape."""
        return tuple(name for name, _ in self.resources if "/" in name)

    @property
    def huge_pages(self) -> tuple[str, ...]:
        """Sizes of the huge pages that each pod requests, such as 2Mi."""
        return tuple(name.removeprefix(HUGE_PAGES) for name, _ in self.resources if name.startswith(HUGE_PAGES))


@dataclass(frozen=True, slots=True)
class KVSpec:
    """KV cache precision and offload, and how KV travels between the halves of a split."""

    precision: Precision | None = None
    offload_json: str | None = None
    connector: str = "NIXL"
    transport: str = "Auto"
    locality: str = "Preferred"


@dataclass(frozen=True, slots=True)
class ShapePins:
    """Sizes of the shape that the user pinned; None is free."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    data_parallel: int | None = None
    decode_context_parallel: int | None = None
    prefill_context_parallel: int | None = None

    @classmethod
    def of(cls, shape: Shape) -> Self:
        """The pins that allow only the sizes of this shape."""
        return cls(
            shape.tensor_parallel,
            shape.pipeline_parallel,
            shape.expert_parallel,
            shape.data_parallel,
            shape.decode_context_parallel,
            shape.prefill_context_parallel,
        )

    def allow(self, shape: Shape) -> bool:
        """Whether all pins allow the sizes of a shape."""
        pairs = zip(astuple(self), astuple(ShapePins.of(shape)), strict=True)
        return all(pin in {None, size} for pin, size in pairs)


class Balancing(StrEnum):
    """How requests reach the data-parallel ranks of one replica.

    Internal: its first pod balances over all ranks. Hybrid: each pod balances over its own. External: each pod is one
    rank, and takes requests itself. MultiPort: each rank has a port of its own.
    """

    Internal = "Internal"
    Hybrid = "Hybrid"
    External = "External"
    MultiPort = "MultiPort"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration, as Kubernetes defines it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class DomainRule(StrEnum):
    """Whether a replica may span NVLink domains (pipeline stages may, under Preferred)."""

    Required = "Required"
    Preferred = "Preferred"


class SchedulerName(StrEnum):
    """Who picks the nodes: Weft, for the default scheduler, or a scheduler to which it hands its replicas."""

    Default = "Default"
    Kueue = "Kueue"


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """Where replicas may go. `queue` is set where the scheduler has queues."""

    accelerators: tuple[str, ...] = ()
    node_selector: Pairs = ()
    tolerations: tuple[Toleration, ...] = ()
    domain: DomainRule = DomainRule.Required
    spread: str = "Domain"
    spare_nodes_per_domain: int = 0
    scheduler: SchedulerName = SchedulerName.Default
    queue: str = ""
    nvlink_domain: str = ""  # set by decide only: the domain of both halves of a split over NVLink, one pod per node

    def allows(self, accelerator: str) -> bool:
        """Whether replicas may run on an accelerator, by its name, ignoring case as the catalog does."""
        return not self.accelerators or accelerator.casefold() in map(str.casefold, self.accelerators)


class RolloutStrategy(StrEnum):
    """How a changed spec replaces running replicas."""

    Surge = "Surge"
    Recreate = "Recreate"


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """Rollout limits in replicas: an integer, or a fraction of the desired count (surge is rounded up).

    `start_timeout_seconds` holds for each phase of a start: until the engine runs, and from then on until it answers.
    Once it does, nobody of an earlier revision leaves for it within `min_ready_seconds`.
    """

    strategy: RolloutStrategy = RolloutStrategy.Surge
    max_surge: int | float = 1
    max_unavailable: int | float = 0
    min_ready_seconds: float = 0.0
    paused: bool = False
    drain_timeout_seconds: float = 300.0
    start_timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The few pod fields a user may set.

    `groups` are those of the processes beside their own, `permitted` the relaxations that the administrator allows.
    """

    labels: Pairs = ()
    annotations: Pairs = ()
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    groups: tuple[int, ...] = ()
    relaxations: tuple[str, ...] = ()
    permitted: tuple[str, ...] = ()


class RouterKind(StrEnum):
    """The kind of front before the replicas."""

    Managed = "Managed"
    Gateway = "Gateway"
    Nothing = "None"


@dataclass(frozen=True, slots=True)
class GatewayParent:
    """The parent of a route, as the Gateway API names it; None leaves a field to its default there."""

    group: str
    kind: str
    name: str
    namespace: str | None = None
    section: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """A route through the Gateway API, and the Service of the endpoint picker with its gRPC port."""

    parents: tuple[GatewayParent, ...]
    picker: str
    picker_port: int
    hostnames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RouterSpec:
    """The front before the replicas. `resources` as in `EngineSpec`; `gateway` is set for that kind alone."""

    kind: RouterKind = RouterKind.Nothing
    replicas: int = 1
    image: str | None = None
    resources: Pairs = ()
    api_key_secret: tuple[str, str] | None = None
    gateway: GatewaySpec | None = None

    @property
    def is_of_weft(self) -> bool:
        """Whether Weft runs the router, and chose its program."""
        return self.kind is RouterKind.Managed and self.image is None


@made_often
@dataclass(frozen=True, slots=True)
class PoolSpec:
    """The whole spec of one InferencePool. `pair` is what both halves of a split share: see `pair_revision`."""

    role: Role
    model: ModelSpec
    engine: EngineSpec
    kv: KVSpec
    workload: Workload
    slo: Slo
    shape: ShapePins
    placement: PlacementSpec
    scaling: ScalingSpec
    rollout: RolloutSpec
    pod: PodSpec
    router: RouterSpec
    pair: str = ""
    balancing: Balancing = Balancing.Internal

    @property
    def has_sidecar(self) -> bool:
        """Whether a sidecar takes requests from a Gateway: in halves of a split behind one."""
        return self.router.kind is RouterKind.Gateway and self.role.is_half

    @property
    def pod_needs(self) -> Pairs:
        """Resources that each pod requests besides accelerators: for its engine, and for a sidecar."""
        if not self.has_sidecar:
            return self.engine.resources
        needs = dict(self.engine.resources)
        for name, amount in self.router.resources:
            needs[name] = f"{parse_quantity(amount) + parse_quantity(needs.get(name, '0')):.15g}"
        return tuple(needs.items())

    def balances(self, shape: Shape) -> Balancing:
        """The balancing in effect for a shape: with one rank per pod, Hybrid becomes External (vLLM's own rule)."""
        if shape.data_parallel == 1 or (self.balancing is Balancing.Hybrid and shape.pods == 1):
            return Balancing.Internal
        alone = self.balancing is Balancing.Hybrid and shape.ranks_per_pod == 1
        return Balancing.External if alone else self.balancing


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """One PDSplit's spec: each side is a complete PoolSpec (common fields with that side's overrides laid over them).

    `prefill_body` and `decode_body` are the same sides as canonical JSON of an InferencePool spec, for the child pools.
    `ratio_min` and `ratio_max` bound prefill replicas per decode replica. `overrides` are the fields that a side
    overrides, such as `(Role.Prefill, "shape.tensorParallel")`.
    """

    prefill: PoolSpec
    decode: PoolSpec
    router: RouterSpec
    prefill_body: str
    decode_body: str
    ratio_min: float | None = None
    ratio_max: float | None = None
    engine: EngineSpec = field(default_factory=EngineSpec)
    overrides: tuple[tuple[Role, str], ...] = ()

    def as_written(self, role: Role, sentence: str) -> str:
        """A message about one side's pool with overridden fields named as in the split: `spec.prefill.shape...`."""
        for side, path in self.overrides:
            if side is role:
                sentence = re.sub(rf"\bspec\.{re.escape(path)}\b", f"spec.{role.value.lower()}.{path}", sentence)
        return sentence
