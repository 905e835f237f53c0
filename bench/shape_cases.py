"""What docs/shapes.md is written from: resources on fabrics, and what was decided for them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.cli.cluster.world import World, imagined_world

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Plan

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fabric:
    """Nodes to plan against: so many with one kind of accelerator, all free."""

    accelerator: str
    nodes: int

    @property
    def words(self) -> str:
        """`128 H100 in domains of 8`."""
        found = load().accelerator(self.accelerator)
        return f"{self.gpus} {found.name} in domains of {found.domain_gpus}"

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * load().accelerator(self.accelerator).gpus_per_node

    def world(self) -> World:
        """Its nodes."""
        return World(_nodes(load().accelerator(self.accelerator).products[0])[: self.nodes])


@dataclass(frozen=True, slots=True)
class Case:
    """One resource on one fabric; `words` is how its row begins."""

    words: str
    resource: Json
    fabric: Fabric


@dataclass(frozen=True, slots=True)
class Pool:
    """What was decided for one pool; `plan` is None where nothing serves it, and `why` says so. Cost is relative."""

    role: str
    plan: Plan | None
    replicas: int
    cost: float
    why: Explanation

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.plan.shape.gpus if self.plan else 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what was decided for its pools: one, or prefill and decode."""

    case: Case
    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Application:
    """A class of applications: the example that stands for it on every fabric."""

    title: str
    file: str
    resource: Json
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of thumb, each with the cases that show it."""

    replicas: tuple[Outcome, ...]
    sizes: tuple[Outcome, ...]
    experts: tuple[Outcome, ...]
    lengths: tuple[Outcome, ...]


@functools.lru_cache
def _nodes(product: str) -> tuple[NodeRecord, ...]:
    """The imagined nodes of one product, in order."""
    return tuple(node for node in imagined_world(load()).nodes if product in dict(node.labels).values())
