"""An operator whose watches hear nothing takes nothing away (ADR 0129): what it waits for may have come meanwhile.

Either its writes go on, as with a watch that hangs, or it was cut off and writes again before its watches are back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.holding.cluster import boards
from tests.holding.operation import pool_body
from tests.holding.whole import Whole
from weft.control.deciding import decision_writing
from weft.domain import labels
from weft.domain.errors import Retry
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import ApiRequest, ApiResponse

TICK_SECONDS = 2.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses that were refused are tried in the next pass, as back-off goes by a clock that nobody sets here."""
    monkeypatch.setattr(decision_writing, "MOST_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(decision_writing, "FAILING_SECONDS", 0.0)


@dataclass
class Blind:
    """What the operator sees of `kind` stays as it is now; while it is `cut` off, no write of it arrives either."""

    world: Whole
    kind: str
    cut: bool

    def __post_init__(self) -> None:
        seen, self.since = self.world.context.cluster, self.world.cluster.now
        self.watched: Callable[[], Any] = getattr(seen, self.kind)
        self.send = self.world.server.send
        frozen = self.watched()
        setattr(seen, self.kind, lambda: frozen)
        if self.cut:
            self.world.server.send = unreachable  # type: ignore[method-assign]

    def last(self, seconds: float) -> None:
        """Go on so; where it was cut off, it writes again in the last pass."""
        until = self.world.cluster.now + seconds
        while self.world.cluster.now < until:
            self._turn()
        self.world.server.send = self.send  # type: ignore[method-assign]
        self._turn()

    def end(self) -> None:
        """It is listed again."""
        setattr(self.world.context.cluster, self.kind, self.watched)
        self.world.context.cluster.blind_seconds = 0.0

    def _turn(self) -> None:
        self.world.cluster.now += TICK_SECONDS
        self.world.context.cluster.blind_seconds = self.world.cluster.now - self.since
        self.world.decide()
        self.world.converge("chat")
        self.world.cluster.step()


def unreachable(request: ApiRequest) -> ApiResponse:
    raise Retry(Reason.ApiUnavailable, "the API server cannot be reached")


BOTH = pytest.mark.parametrize("cut", [False, True], ids=["its watch hangs", "it is cut off"])


@BOTH
def test_replicas_that_were_bound_and_answer_meanwhile_are_not_given_up_as_not_scheduled(*, cut: bool) -> None:
    world = Whole.of(boards(3), pool_body("chat", "H200", 1, 1))
    world.rest()
    world.edit("chat", scaling={"mode": "External", "replicas": 3, "maxReplicas": 9})
    while len(world.pods_of("chat")) < 3 or any(pod["spec"].get("schedulingGates") for pod in world.pods_of("chat")):
        world.cluster.now += 1.0
        world.decide()
        world.converge("chat")
    blind = Blind(world, "pods", cut)
    world.cluster.step()
    world.cluster.step()
    assert [0, 1, 2] == world.serving("chat")
    blind.last(80.0)
    assert [0, 1, 2] == world.serving("chat")
    blind.end()
    world.rest()
    assert [0, 1, 2] == world.serving("chat")


@BOTH
def test_a_replica_whose_node_answers_again_meanwhile_is_not_given_up(*, cut: bool) -> None:
    world = Whole.of(boards(6), pool_body("chat", "H200", 8, 3))
    world.rest()
    used = [node for (node,) in world.nodes_of("chat")]
    for node in used:
        world.cluster.silence(node)
    world.cluster.now += 5.0
    world.decide()
    blind = Blind(world, "nodes", cut)
    for node in used:
        world.cluster.silence(node, ready=True)
    blind.last(60.0)
    assert {0, 1, 2} <= set(world.serving("chat"))
    blind.end()
    world.rest()
    assert 3 == len(world.serving("chat"))


@BOTH
def test_no_trial_is_passed_unseen(*, cut: bool) -> None:
    """The new engine ends under its first request: the only other replica stays."""
    world = Whole.of(boards(3), pool_body("chat", "H200", 8, 1))
    world.rest()
    world.edit("chat", engine={"name": "VLLM", "env": [{"name": "V", "value": "2"}]})
    while len(world.serving("chat")) < 2:
        world.turn(1, TICK_SECONDS)
    world.turn(1, TICK_SECONDS)
    blind = Blind(world, "pods", cut)
    new = [pod for pod in world.pods_of("chat") if pod["metadata"]["labels"][labels.REPLICA] == "1"]
    world.cluster.crash(new[0]["metadata"]["name"])
    blind.last(60.0)
    assert [0] == world.serving("chat")
    blind.end()
    for _ in range(6):
        world.turn(1, 5.0)
        assert 0 in world.serving("chat")
