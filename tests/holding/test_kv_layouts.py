"""Engines of a split that exchange no KV with those that run never meet them (ADR 0122)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.holding.pairs import HALVES
from tests.holding.test_generations import roll, serving
from weft.domain import labels

if TYPE_CHECKING:
    from tests.holding.operation import Json
    from tests.holding.pairs import Pair


def edit(world: Pair, **sections: Json) -> None:
    """The user edits whole sections of the spec."""
    world.split["spec"] = {**world.split["spec"], **sections}
    world.split["metadata"]["generation"] += 1


def in_eight_bits(world: Pair) -> dict[str, set[bool]]:
    """Whether engines were told to compute in 8 bits, by the pair that their pods name."""
    found: dict[str, set[bool]] = {}
    for pod in world.cluster.pods.values():
        tags = pod["metadata"]["labels"]
        if tags.get(labels.ROLE) in HALVES and labels.PAIR in tags:
            found.setdefault(tags[labels.PAIR], set()).add("fp8" in json.dumps(pod["spec"]["containers"][0]))
    return found


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
def test_another_precision_rolls_as_a_pair_of_its_own(counts: tuple[int, int]) -> None:
    """Of the spec nothing but what the plan follows has changed, and the hash of a pair does not have that."""
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct"}
    world = serving(*counts, nodes=4, model={**model, "precision": "BF16"})
    (old,) = world.pairs()
    edit(world, model={**model, "precision": "FP8"})
    least: list[float] = []

    def look() -> None:
        least.append(world.capacity())
        assert all(len(found) == 1 for found in in_eight_bits(world).values())
        assert all(world.is_pair(pair) for pair in world.routers())

    roll(world, look)
    (new,) = world.pairs()
    assert new != old
    assert min(least) >= 1.0
    assert in_eight_bits(world) == {new: {True}}
    assert [len(world.engines(half, new)) for half in HALVES] == list(counts)
    assert world.split["status"]["kvLayouts"] == 1


def test_another_size_that_exchanges_kv_rolls_within_the_pair() -> None:
    """Its halves may meet those of the size before, and only they are started anew."""
    world = serving(1, 2, nodes=4)
    (old,) = world.pairs()
    kept = world.engines("decode", old)
    side = world.split["spec"]["prefill"]
    edit(world, prefill={**side, "shape": {"tensorParallel": 2}})
    roll(world, lambda: None)
    assert world.pairs() == {old}
    assert world.engines("decode", old) == kept
    assert "kvLayouts" not in world.split["status"]


def test_a_lost_status_names_no_other_pair() -> None:
    """How often plans changed is read from what the children name."""
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct"}
    world = serving(1, 1, nodes=4, model={**model, "precision": "BF16"})
    edit(world, model={**model, "precision": "FP8"})
    roll(world, lambda: None)
    before = world.pairs()
    world.split["status"] = {}
    roll(world, lambda: None)
    assert world.pairs() == before


@pytest.mark.parametrize(
    "engine", [{"version": "0.32.0"}, {"args": ["--max-num-seqs=64"]}], ids=["release", "arguments"]
)
def test_an_edit_that_makes_another_pair_anyway_counts_none(engine: Json) -> None:
    """The other pair that the release or the arguments make is the only one, and takes the precision along."""
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct"}
    begun = {"name": "VLLM", "version": "0.31.0"}
    world = serving(2, 3, nodes=4, engine=begun, model={**model, "precision": "BF16"})
    edit(world, engine={**begun, **engine}, model={**model, "precision": "FP8"})
    seen: set[str] = set()

    def look() -> None:
        seen.update(world.pairs())
        assert all(len(found) == 1 for found in in_eight_bits(world).values())

    roll(world, look)
    assert len(seen) == 2
    assert "kvLayouts" not in world.split["status"]


def test_who_edits_there_and_back_and_there_again_lets_none_meet() -> None:
    """In the middle of the rolls before; each time it is another pair."""
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct"}
    world = serving(2, 3, nodes=4, model={**model, "precision": "BF16"})

    def look() -> None:
        assert all(len(found) == 1 for found in in_eight_bits(world).values())

    for precision, turns in (("FP8", 7), ("BF16", 5)):
        edit(world, model={**model, "precision": precision})
        for _ in range(turns):
            world.turn()
            look()
    edit(world, model={**model, "precision": "FP8"})
    roll(world, look)
    assert list(in_eight_bits(world).values()) == [{True}]
    assert world.split["status"]["kvLayouts"] == 3
