"""A rule of others sees what a pool serves in company, if its router is of Weft's choice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.twin.simulated import chat, setting, trace
from weft.domain.spec import RouterKind, RouterSpec
from weft.domain.workload import Slo
from weft.twin.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.capacity import Capacity
    from weft.twin.policies.policy import PoolView


@dataclass
class Looking:
    """A rule that leaves all counts as they are, and remembers what it was told that replicas serve."""

    name: str = "looking"
    every_seconds: float = 10.0
    told: list[Capacity] = field(default_factory=list)

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:  # noqa: ARG002 - of the protocol
        self.told += [each.capacity for each in pools]
        return {}


def told(router: RouterSpec) -> Capacity:
    """What replicas of a pool with long prompts serve, by what a rule is told."""
    pool, rule = chat(), Looking()
    assert pool.spec is not None
    spec = replace(pool.spec, slo=Slo(tpot=((95, 0.03),)), router=router)
    simulate(setting(trace((30.0, 1.0)), replace(pool, spec=spec)), rule)
    return rule.told[-1]


def test_a_rule_is_told_what_replicas_serve_behind_a_router_of_wefts_choice() -> None:
    managed, alone = RouterSpec(RouterKind.Managed), told(RouterSpec())
    assert told(managed).each(8) > 1.05 * alone.each(8)
    assert told(managed).alone == alone.alone
    assert told(replace(managed, image="example.org/router:1")) == alone
