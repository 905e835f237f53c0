"""An operator that dies after each of its writes ends where an undisturbed one does, and breaks no rule (L5)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.presets import h200_boards, nvl72_rack
from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY
from tests.installed import PLACE_LABEL
from tests.scenarios.audit import writes
from tests.scenarios.history import check_assigned_first, check_rules, history, version_now
from tests.scenarios.tenants import create_split, delete_split, split_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(200)

Json = dict[str, Any]

LEAST_DEATHS = 25  # of a pool of two-pod replicas: created, one to three, three to one
LEAST_DEATHS_OF_A_SPLIT = 15
REFUSED = 300  # HTTP status, and above
OURS = "app.kubernetes.io/managed-by=weft"
CHILDREN = ("api/v1/services", "apis/apps/v1/deployments", "apis/policy/v1/poddisruptionbudgets")
RACKS = [*nvl72_rack("rack-a", trays=5), *nvl72_rack("rack-b", trays=3)]
MOMENTS = {"lastTransitionTime", "created", "since", "at", "resourceVersion", "time"}


@dataclass(slots=True)
class Life:
    """What a resource came to: its state at the end of each phase, and how many had to serve from which version on."""

    began: int
    states: list[str] = field(default_factory=list)
    floors: list[tuple[int, int]] = field(default_factory=list)

    def floor(self, version: int) -> int:
        """Replicas that had to serve at a version."""
        return [floor for since, floor in self.floors if since <= version][-1]


def test_a_pool_ends_the_same_when_the_operator_dies_after_every_write(weft: InstalledWeft, tmp_path: Path) -> None:
    """Created with one replica of two pods, scaled to three, to one, and deleted."""
    calm, killed = weft.place("calm-pool", RACKS), weft.place("killed-pool", RACKS)
    with calm.operator("--tick", "1"):
        expected = live(calm)
    with mortal_operators(weft, killed, tmp_path / "deaths") as deaths:
        lived = live(killed)
    assert expected.states == lived.states
    assert deaths() >= LEAST_DEATHS
    for place in (calm, killed):
        assert pods_made(place) == sorted(f"{replica}-{rank}" for replica in range(3) for rank in range(2))
        assert len(pods_deleted(place)) == 4


def test_a_split_ends_the_same_when_the_operator_dies_after_every_write(weft: InstalledWeft, tmp_path: Path) -> None:
    """Created until the pair serves, and deleted."""
    calm, killed = weft.place("calm-split", h200_boards(1)), weft.place("killed-split", h200_boards(1))
    with calm.operator("--tick", "1"):
        expected = live_as_a_split(calm)
    with mortal_operators(weft, killed, tmp_path / "deaths") as deaths:
        lived = live_as_a_split(killed)
    assert expected == lived
    assert deaths() >= LEAST_DEATHS_OF_A_SPLIT
    for place in (calm, killed):
        assert len(pods_made(place)) == 2
        assert pods_deleted(place) == set()


def live(place: Place) -> Life:
    """One pool from its creation to its end, with its history held to the rules."""
    life = Life(version_now(place), floors=[(0, 0)])
    place.create_pool(
        "chat",
        model={"id": "meta-llama/Llama-3.3-70B-Instruct"},
        shape={"tensorParallel": 8},
        placement={"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: place.namespace}},
        scaling={"mode": "External", "replicas": 1},
    )
    place.wait_ready("chat", seconds=60)
    for replicas in (3, 1):
        life.states.append(state(place, ["inferencepools"]))
        life.floors.append((version_now(place), 1))
        place.change_pool("chat", {"spec": {"scaling": {"replicas": replicas}}})
        place.wait_ready("chat", replicas, seconds=60)
    life.states.append(state(place, ["inferencepools"]))
    check_history(place, life)
    place.delete_pool("chat")
    eventually(lambda: not place.left_over() and not place.pods(), "nothing is left", timeout_seconds=90)
    return life


def live_as_a_split(place: Place) -> str:
    """One split from its creation to its end; gives its state while it served."""
    spec = {
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
        "shape": {"tensorParallel": 1},
        "router": {"type": "Managed", "resources": {"cpu": "1", "memory": "1Gi"}},
    }
    create_split(place, "pair", spec)
    eventually(lambda: is_settled(place), "the pair serves and rests", timeout_seconds=60)
    found = state(place, ["pdsplits", "inferencepools"])
    delete_split(place, "pair")
    eventually(lambda: not place.left_over() and not place.pods(), "nothing is left", timeout_seconds=90)
    return found


def is_settled(place: Place) -> bool:
    return split_condition(place, "pair", "Ready")[0] == "True" and all(
        place.is_ready(name, 1) for name in ("pair-prefill", "pair-decode")
    )


def check_history(place: Place, life: Life) -> None:
    """S1, S2 and S9 after every single change that anybody made, and assignments before pods."""
    nodes = {f"{place.namespace}-{node.name}": node for node in RACKS}
    born = 0
    for world in history(place, life.began):
        check_rules(world, nodes)
        check_assigned_first(world)
        assert world.ready("chat") >= life.floor(world.version), f"too few serve at version {world.version}"
        born += world.born is not None
    assert born == 6


def pods_made(place: Place) -> list[str]:
    """Replica and rank of every engine pod that was ever created."""
    return sorted(name.split("-", name.count("-") - 1)[-1] for name in _pods(place, "create"))


def pods_deleted(place: Place) -> set[str]:
    """Every pod that Weft deleted; to ask twice, before a cache has heard of it, changes nothing."""
    return set(_pods(place, "delete"))


def _pods(place: Place, verb: str) -> list[str]:
    asked = writes(place.weft.cluster)
    done = [each for each in asked if (each.verb, each.resource, each.namespace) == (verb, "/pods", place.namespace)]
    return [each.name for each in done if each.code < REFUSED]


def state(place: Place, plurals: list[str]) -> str:
    """Everything that Weft keeps in a namespace, but for names and times that are never the same."""
    resources = [body for plural in plurals for body in place.objects(f"apis/weft.dev/v1alpha1/{plural}")]
    others = [(path, body["metadata"]["name"]) for path in CHILDREN for body in place.objects(path, OURS)]
    text = json.dumps([[timeless(body["status"]) for body in resources], sorted(others)], sort_keys=True, indent=1)
    for body in resources:
        text = text.replace(body["metadata"]["uid"], f"UID of {body['metadata']['name']}")
    return text.replace(place.namespace, "NAMESPACE")


def timeless(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same JSON without moments."""
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if key not in MOMENTS}
    if isinstance(value, list):
        return sorted((timeless(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True))
    return value


@contextlib.contextmanager
def mortal_operators(weft: InstalledWeft, place: Place, log: Path) -> Iterator[Callable[[], int]]:
    """While it is open, one operator after the other serves the place; each dies after a write. Counts the deaths."""
    command = [sys.executable, "-m", "tests.scenarios.mortal_operator", str(weft.kubeconfig), place.namespace]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=REPOSITORY, start_new_session=True)
    try:
        yield lambda: log.read_text().count("killed\n")
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
