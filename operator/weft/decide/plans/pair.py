"""What both halves of one split run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.shape import EngineRelease, Plan
    from weft.perf import ReplicaModel

HALVES = (Role.Prefill, Role.Decode)


@dataclass(frozen=True, slots=True)
class Pair:
    """What the halves of one split run, and whether the router before them is `managed`: of Weft's choice.

    `kv_layouts` as in `SplitStatus`.
    """

    prefill: Plan
    decode: Plan
    managed: bool
    sender: ReplicaModel  # prefill as predictions see it
    connector: str
    kv_layouts: int = 0

    @property
    def release(self) -> EngineRelease:
        """The engine release, the same for both halves: a pair keeps to the GPUs of one vendor."""
        return self.decode.engine

    def plan(self, role: Role) -> Plan:
        """The plan of one half."""
        return self.prefill if role is Role.Prefill else self.decode
