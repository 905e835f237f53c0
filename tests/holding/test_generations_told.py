"""What a status says of an edit: nothing of it counts as done before it was decided on, nor before halves follow.

Argo CD, Flux and `kubectl wait` go on as soon as kstatus calls a resource current.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.holding.cluster import boards
from tests.holding.operation import Operation, pool_body
from tests.holding.pairs import HALVES, Pair, split_body
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

Json = dict[str, Any]


def is_current(body: Json) -> bool:
    """As kstatus judges a resource that has its conditions."""
    status = body.get("status", {})
    found = {each["type"]: each["status"] for each in status.get("conditions", [])}
    seen = status.get("observedGeneration") == body["metadata"]["generation"]
    return seen and found.get("Ready") == "True" and "True" not in {found.get("Reconciling"), found.get("Stalled")}


def scaled(least: int) -> Json:
    return {"scaling": {"minReplicas": least, "maxReplicas": 9}}


@pytest.mark.parametrize(
    ("before", "edit", "serving"),
    [
        ({}, {"scaling": {"mode": "External", "replicas": 3, "maxReplicas": 9}}, 3),
        (scaled(2), scaled(3), 3),
        ({}, {"shape": {"tensorParallel": 2, "pipelineParallel": 1, "dataParallel": 1}}, 2),
    ],
    ids=["replicas by hand", "the least", "another shape"],
)
def test_a_pool_is_not_current_before_its_edit_was_decided(before: Json, edit: Json, serving: int) -> None:
    """Converging looks first, as a rule: it has nothing to wait for."""
    world = Operation.of(boards(2), pool_body("chat", "H200", 1, 2, **before))
    world.rest()
    assert is_current(world.bodies["chat"])
    world.edit("chat", **edit)
    outdated = {pod["metadata"]["name"] for pod in world.pods_of("chat")} if "shape" in edit else set()
    told = []
    for _ in range(40):
        world.converge("chat")
        told.append(is_current(world.bodies["chat"]))
        left = outdated & {pod["metadata"]["name"] for pod in world.pods_of("chat")}
        assert not told[-1] or (len(world.serving("chat")) == serving and not left)
        world.turn()
    assert (told[0], told[-1]) == (False, True)


def test_what_cannot_be_decided_is_told_of_the_edit_that_did_it() -> None:
    """An edit that makes no sense ends at `Stalled`, of its own generation."""
    world = Operation.of(boards(1), pool_body("chat", "H200", 1, 1))
    world.rest()
    world.edit("chat", model={"id": "nobody/knows-it"})
    world.turn(2)
    status = world.bodies["chat"]["status"]
    assert (status["observedGeneration"], world.condition("chat", "Stalled")[:2]) == (2, ("True", "ModelUnknown"))


def a_split() -> Pair:
    world = Pair.on(boards(2), split_body(1, 1))
    world.turn(20)
    assert is_current(world.split)
    return world


def edited(world: Pair, **fields: Json) -> None:
    world.split["spec"] = {**world.split["spec"], **fields}
    world.split["metadata"]["generation"] += 1


def test_a_split_is_not_current_before_its_halves_have_followed() -> None:
    """Its children are edited first, and then decided on."""
    world = a_split()
    edited(world, prefill={"scaling": {"minReplicas": 3, "maxReplicas": 3}})
    told = []
    for _ in range(20):
        for do in (world.converge_the_split, world.decide, world.converge_the_split):
            do()
            told.append(is_current(world.split))
            assert not told[-1] or len(world.serving("duo-prefill")) == 3
        world.turn()
    assert (told[0], told[-1]) == (False, True)


def test_a_split_whose_halves_are_refused_stalls_at_its_edit_and_goes_on_after_it() -> None:
    """Neither kstatus nor `kubectl wait` heeds a condition of an earlier generation: they would wait for ever."""
    world = a_split()
    world.refusal = Blocked(Reason.PodRefused, "a policy forbids it")
    edited(world, prefill={"scaling": {"minReplicas": 3, "maxReplicas": 3}})
    world.turn(3)
    status = world.split["status"]
    of = {each["type"]: each["observedGeneration"] for each in status["conditions"]}
    assert (status["observedGeneration"], of["Stalled"], of["Ready"]) == (2, 2, 1)
    world.refusal = None
    for _ in range(20):
        for do in (world.converge_the_split, world.decide, world.converge_the_split):
            do()
            assert not is_current(world.split) or len(world.serving("duo-prefill")) == 3
        world.turn()
    assert is_current(world.split)


def test_a_split_names_the_generation_that_serves() -> None:
    """While the next one starts, requests still go to the one before."""
    world = a_split()
    before = world.pairs()
    edited(world, engine={"name": "VLLM", "args": ["--max-num-seqs=64"]})
    told = []
    for _ in range(60):
        for do in (world.converge_the_split, world.decide, world.converge_the_split):
            do()
            served = {pair for pair in world.routers() if world.is_pair(pair)}
            told.append(world.split["status"].get("generation"))
            assert told[-1] == 1 or served - before, (told, served, before)
        world.turn()
    assert (told[0], told[-1]) == (1, 2)


def test_a_split_that_nobody_serves_names_no_generation() -> None:
    world = a_split()
    for half in HALVES:
        for pod in world.pods_of(f"duo-{half}"):
            world.cluster.pods.pop(pod["metadata"]["name"])
    world.converge_the_split()
    assert "generation" not in world.split["status"]
