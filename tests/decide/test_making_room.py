"""Whoever has no place is told which moves would open one; nothing moves by itself."""

from __future__ import annotations

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy
from weft.domain.moves import MoveBudget


def halves() -> World:
    """`first` on b-0 and `second` on b-1, each beside four free GPUs."""
    first, second = pool("first", pool_spec(4)), pool("second", pool_spec(4))
    world = World.of([board("b-0")], first, pods=())
    world.turn(4)
    world.pools["second"] = second
    world.pods["job"] = busy("job", "b-0", 4)
    world.nodes.append(board("b-1"))
    world.turn(6)
    del world.pods["job"]
    assert [world.nodes_of(name) for name in ("first", "second")] == [[("b-0",)], [("b-1",)]]
    return world


def test_the_moves_that_would_make_room_are_named_and_not_made() -> None:
    world = halves()
    world.pools["large"] = pool("large", pool_spec(8))
    world.turn(4)
    status, reason, message = world.condition("large", "Placed")
    assert (status, reason) == ("False", "NoSlot")
    one = "moving replica 0 of team/first from b-0 to b-1 would make room (4 GPUs move)"
    other = "moving replica 0 of team/second from b-1 to b-0 would make room (4 GPUs move)"
    assert message.endswith((one, other))
    assert [world.nodes_of(name) for name in ("first", "second")] == [[("b-0",)], [("b-1",)]]


def test_it_is_said_when_the_operator_may_move_nothing() -> None:
    """Whoever asks without the operator's settings is told the moves alone."""
    world = halves()
    world.pools["large"] = pool("large", pool_spec(8))
    world.budget = MoveBudget()
    world.turn(4)
    assert world.condition("large", "Placed")[2].endswith("would make room (4 GPUs move), but moves are off")


def test_no_moves_are_told_where_none_would_help() -> None:
    world = halves()
    world.pools["large"] = pool("large", pool_spec(8, external(2)))
    world.pods["job"] = busy("job", "b-0", 4)
    world.turn(4)
    assert "would make room" not in world.condition("large", "Placed")[2]


def test_pods_of_others_are_never_told_to_move() -> None:
    world = World.of([board("b-0"), board("b-1")], pool("large", pool_spec(8)))
    world.pods |= {name: busy(name, node, 4) for name, node in (("x", "b-0"), ("y", "b-1"))}
    world.turn(4)
    assert "would make room" not in world.condition("large", "Placed")[2]
