"""What an engine adapter is asked for one container, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.shape import Plan
    from weft.domain.spec import Balancing, Pairs, PoolSpec, RouterSpec


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One rank of one replica. `leader_host` is the DNS name of rank 0, used if the replica has several pods.

    `checkpoint` is the precision of the published weights, None if unknown.
    """

    spec: PoolSpec
    plan: Plan
    rank: int = 0
    leader_host: str = ""
    checkpoint: Precision | None = None

    @property
    def balancing(self) -> Balancing:
        """How requests reach the ranks of the replica."""
        return self.spec.balances(self.plan.shape)

    @property
    def on_cpu(self) -> bool:
        """Whether the engine runs on the CPU."""
        return self.plan.shape.accelerator == "cpu"

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights of the whole replica."""
        return self.plan.prediction.weight_bytes_per_gpu * self.plan.shape.gpus


@dataclass(frozen=True, slots=True)
class FrontRequest:
    """A router in front of replicas. Selectors choose the pods that take requests; `decode` is empty unless it pairs.

    With `decode` set, `prefill_or_all` chooses the prefill side. A deleted router's streams get `drain_seconds`.
    """

    namespace: str
    router: RouterSpec
    prefill_or_all: Pairs
    decode: Pairs = ()
    drain_seconds: int = 300


@dataclass(frozen=True, slots=True)
class EnvValue:
    """One environment variable: a plain value, a field of the pod (downward API) or (Secret name, key)."""

    name: str
    value: str = ""
    field: str | None = None
    secret: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NamedPort:
    """A port that the container listens on."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """An HTTP GET probe of the kubelet; `period` and `timeout` are seconds."""

    path: str
    port: int
    period: int = 10
    timeout: int = 5
    failures: int = 3


class LeavesBy(StrEnum):
    """What makes a router stop choosing a pod: the loss of its label, or being asked to forget it.

    A router of the second kind also sees the deletion of a pod that has its label and is still ready.
    """

    Label = "Label"
    Asking = "Asking"


class MountKind(StrEnum):
    """Kinds of volumes that can carry a model."""

    PVC = "PVC"
    Image = "Image"
    EmptyDir = "EmptyDir"


@dataclass(frozen=True, slots=True)
class ModelMount:
    """A volume that holds the weights or will; `location` is the claim, the image reference, or empty."""

    kind: MountKind
    location: str
    path: str
    pull_policy: str | None = None
    writable: bool = False


# The folder of a launch's files inside its container.
FILES_PATH = "/etc/engine"


DISK_PATH = "/kv"  # where KV is kept on a node disk


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A small read-only text file in the container; `name` is a file name without folders."""

    name: str
    text: str

    @property
    def path(self) -> str:
        """The file's path inside the container."""
        return f"{FILES_PATH}/{self.name}"


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """One container, without what is the same for all of them (security, devices, scratch space).

    `command` is a list and never a shell line. `pre_stop_seconds` is how long the container keeps serving after its
    deletion began, so that routers stop choosing it; `grace_seconds` covers that and the engine's own drain.
    `annotations` are put on its pod for others to read. `api_servers` is how many the container has, on as many
    consecutive ports; None: one in the first pod of a replica, none in the others. `huge_pages` are the huge page sizes
    that it may use. `disk_bytes` of KV are below `DISK_PATH`. Without a command the image's entry point gets `args`;
    `user` is the user that the image was made for, if it cannot be chosen.
    """

    command: tuple[str, ...]
    env: tuple[EnvValue, ...]
    ports: tuple[NamedPort, ...]
    pre_stop_seconds: int
    grace_seconds: int
    startup: HttpProbe | None = None
    readiness: HttpProbe | None = None
    shared_memory_bytes: int = 0
    model_mount: ModelMount | None = None
    annotations: Pairs = ()
    secrets_as_env: tuple[str, ...] = ()
    files: tuple[LaunchFile, ...] = ()
    api_servers: int | None = None
    huge_pages: tuple[str, ...] = ()
    disk_bytes: int = 0
    args: tuple[str, ...] = ()
    user: int | None = None
