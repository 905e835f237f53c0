"""Labels by which a split's front finds its halves: whoever edits them, the same pods have them again.

Rules of docs/rules.md: S6, L1, F12.
"""

from __future__ import annotations

import pytest

from tests.holding.cluster import boards
from tests.holding.pairs import HALVES, Pair, split_body
from tests.holding.picked import PickedPair, picked_body
from tests.holding.test_edited_labels import edit, tags_of
from weft.domain import labels

KEYS = (labels.PAIR, labels.SPLIT_UID, labels.REVISION)


def engine(world: Pair, half: str) -> str:
    return min(str(pod["metadata"]["name"]) for pod in world.pods_of(f"duo-{half}"))


@pytest.mark.parametrize("value", [None, "else"], ids=["gone", "another"])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("key", KEYS)
def test_a_pair_behind_a_gateway_has_them_again(key: str, half: str, value: str | None) -> None:
    world = PickedPair.on(boards(2), picked_body(2, 2))
    world.turn(12)
    before = tags_of(world)
    edited = engine(world, half)
    assert key in before[edited]
    edit(world, edited, key, value)
    world.turn(12)
    assert before == tags_of(world)


@pytest.mark.parametrize("half", HALVES)
def test_a_pair_behind_routers_has_them_again(half: str) -> None:
    """Its routers go on with the others meanwhile, and no replica is made anew."""
    world = Pair.on(boards(2), split_body(2, 2))
    world.turn(12)
    before, (pair,) = tags_of(world), world.pairs()
    edit(world, engine(world, half), labels.PAIR, None)
    for _ in range(12):
        world.turn()
        assert world.routers()[pair] == 2
    assert before == tags_of(world)


def test_nothing_is_told_of_a_pair_that_is_being_replaced() -> None:
    """What its pods were labelled with follows from a spec that is gone: they are left as they are, and leave."""
    world = Pair.on(boards(3), split_body(2, 2))
    world.turn(12)
    (old,) = world.pairs()
    world.split["spec"] = {**world.split["spec"], "engine": {"name": "VLLM", "args": ["--max-num-seqs=64"]}}
    world.split["metadata"]["generation"] += 1
    world.turn(1)
    edited = engine(world, "decode")
    edit(world, edited, labels.PAIR, "else")
    seen = set()
    for _ in range(60):
        world.turn()
        seen |= {tags[labels.PAIR] for name, tags in tags_of(world).items() if name == edited}
    assert seen <= {"else"}
    assert old not in world.pairs()
    assert [2, 2] == [len(world.engines(half, next(iter(world.pairs())))) for half in HALVES]
