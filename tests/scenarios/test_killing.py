"""An operator that dies after each of its writes ends where an undisturbed one does, and breaks no rule (L5)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.ports import free_port
from e2e.cluster.presets import h200_boards, nvl72_rack
from e2e.cluster.simulated_pods import AfterCrash, Crash, crash_container
from e2e.cluster.waiting import eventually
from e2e.operator_process import OF_THIS_TREE, OperatorProcess
from tests.installed import PLACE_LABEL
from tests.scenarios.audit import writes
from tests.scenarios.history import (
    History,
    check_assigned_first,
    check_counts,
    check_pairs,
    check_rules,
    version_now,
)
from tests.scenarios.tenants import (
    A_HUB,
    A_VOLUME,
    STRANGER,
    a_pod_with_our_labels,
    create_split,
    delete_split,
    engines,
    make_users_objects,
    name_its_pool,
    split_condition,
    the_stranger,
    users_objects,
)
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(400)  # up to 160 where a dozen others used the machine

Json = dict[str, Any]

LEAST_DEATHS = 25  # of a pool of two-pod replicas: created, one to three, three to one
LEAST_DEATHS_OF_A_SPLIT = 15
DECISIONS, DECISIONS_OF_A_REST = "weft_decision_seconds_count", 4
REFUSED = 300  # HTTP status, and above
OURS = "app.kubernetes.io/managed-by=weft"
CHILDREN = ("api/v1/services", "apis/apps/v1/deployments", "apis/policy/v1/poddisruptionbudgets")
RACKS = [*nvl72_rack("rack-a", trays=5), *nvl72_rack("rack-b", trays=3)]
BRISK = ("--tick", "1", "--metrics-interval", "1")
REST_SECONDS = 3.0  # two passes, and a look at metrics between them
MOMENTS = {"lastTransitionTime", "created", "since", "at", "resourceVersion", "time"}


@dataclass(slots=True)
class Life:
    """What a resource came to: its state at the end of each phase, and how many had to serve from which version on."""

    history: History
    operator: OperatorProcess
    expected: Life | None = None
    states: list[str] = field(default_factory=list)
    floors: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def floor(self, version: int) -> int:
        """Replicas that had to serve at a version."""
        return [floor for since, floor in self.floors if since <= version][-1]

    def rests(self) -> None:
        """Note the state once it is the expected one, or stays when any would do, and what happened until then."""
        wanted = self.expected.states[len(self.states)] if self.expected else None
        self.states.append(resting_state(self.history.place, self.operator, ["inferencepools"], wanted))
        self.history.look()

    def keeps(self, floor: int) -> None:
        """From now on so many serve at every moment."""
        self.floors.append((version_now(self.history.place), floor))


@dataclass(frozen=True, slots=True)
class Others:
    """What is not ours in a place: nothing of it may change by a single write (S3 and S7)."""

    stranger: Json
    users: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, place: Place) -> Others:
        """As they are once the pool is there and the stranger names it."""
        name_its_pool(place)
        return cls.now(place)

    @classmethod
    def now(cls, place: Place) -> Others:
        """As they are."""
        return cls(the_stranger(place), users_objects(place))


@pytest.fixture
def written_to(weft: InstalledWeft) -> Callable[[], set[str]]:
    """Namespaces in which Weft wrote during the test; empty words stand for the cluster."""
    before = len(writes(weft.cluster))
    return lambda: {each.namespace for each in writes(weft.cluster)[before:]}


def test_a_pool_ends_the_same_when_the_operator_dies_after_every_write(
    weft: InstalledWeft, written_to: Callable[[], set[str]]
) -> None:
    """Created with one replica of two pods, scaled to three, left to Weft without metrics, scaled to one, deleted."""
    calm, killed, next_door = weft.place("calm-pool", RACKS), weft.place("killed-pool", RACKS), weft.place("other", ())
    next_door.create_pool("chat")
    with calm.operator(*BRISK) as operator:
        expected = live(calm, operator)
    with mortal_operator(killed) as operator:
        live(killed, operator, expected)
        assert deaths(operator) >= LEAST_DEATHS
    for place in (calm, killed):
        assert pods_made(place) == sorted(f"{replica}-{rank}" for replica in range(3) for rank in range(2))
        assert len(pods_deleted(place)) == 4
    assert written_to() == {calm.namespace, killed.namespace}
    assert next_door.status("chat") == {}


def test_a_split_ends_the_same_when_the_operator_dies_after_every_write(
    weft: InstalledWeft, written_to: Callable[[], set[str]]
) -> None:
    """Created until the pair serves, bereft of a half, and deleted."""
    calm, killed = weft.place("calm-split", h200_boards(1)), weft.place("killed-split", h200_boards(1))
    with calm.operator(*BRISK) as operator:
        expected = live_as_a_split(calm, operator)
    with mortal_operator(killed) as operator:
        live_as_a_split(killed, operator, expected)
        assert deaths(operator) >= LEAST_DEATHS_OF_A_SPLIT
    assert written_to() == {calm.namespace, killed.namespace}


def live(place: Place, operator: OperatorProcess, expected: Life | None = None) -> Life:
    """One pool from its creation to its end, with its history held to the rules, its states to the expected ones.

    Beside it runs somebody's pod that says it is its third replica.
    """
    make_users_objects(place)
    a_pod_with_our_labels(place, f"{place.namespace}-{RACKS[-1].name}", "chat", 2)
    life = Life(History.begin(place), operator, expected)
    place.create_pool(
        "chat",
        model={"id": "meta-llama/Llama-3.3-70B-Instruct", "source": A_VOLUME},
        shape={"tensorParallel": 8},
        placement={"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: place.namespace}},
        scaling={"mode": "External", "replicas": 1, "maxReplicas": 3, "scaleDownDelay": "1s"},
    )
    others = Others.of(place)
    place.wait_ready("chat", seconds=60)
    life.rests()
    life.keeps(1)
    place.change_pool("chat", {"spec": {"scaling": {"replicas": 3}}})
    place.wait_ready("chat", 3, seconds=60)
    life.rests()
    leave_to_weft_without_metrics(place, life)
    life.keeps(1)
    place.change_pool("chat", {"spec": {"scaling": {"mode": "External", "replicas": 1}}})
    place.wait_ready("chat", seconds=60)
    life.rests()
    check_history(life)
    place.delete_pool("chat")
    eventually(lambda: nothing_is_left(place), "nothing is left", timeout_seconds=90)
    assert Others.now(place) == others
    return life


def leave_to_weft_without_metrics(place: Place, life: Life) -> None:
    """S5: Weft may run one replica from now on, no engine says how busy it is, and three stay."""
    operator = life.operator
    life.keeps(3)
    place.change_pool("chat", {"spec": {"scaling": {"mode": "Auto", "replicas": None}}})
    eventually(lambda: held_without_metrics(place), "it says that it holds", timeout_seconds=60)
    decisions = eventually(lambda: operator.metric(DECISIONS), "the operator lives and has decided")
    eventually(lambda: operator.metric(DECISIONS) >= decisions + DECISIONS_OF_A_REST, "it decides again and again")
    assert place.is_ready("chat", 3)


def held_without_metrics(place: Place) -> bool:
    return bool(place.status("chat")["scale"]["reason"] == "HoldMetricsMissing")


def live_as_a_split(place: Place, operator: OperatorProcess, expected: str | None = None) -> str:
    """One split from its creation to its end; gives its state while it served, held to the expected one.

    Beside it runs somebody's pod that says it is its only decode engine.
    """
    make_users_objects(place)
    a_pod_with_our_labels(place, f"{place.namespace}-h200-0", "pair-decode", 0)
    history = History.begin(place)
    spec = {
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct", "source": A_HUB},
        "shape": {"tensorParallel": 1},
        "router": {"type": "Managed", "resources": {"cpu": "1", "memory": "1Gi"}},
    }
    create_split(place, "pair", spec)
    others = Others.of(place)
    eventually(lambda: is_settled(place), "the pair serves and rests", timeout_seconds=60)
    found = resting_state(place, operator, ["pdsplits", "inferencepools"], expected)
    history.look()
    assert routed(place)
    assert (len(pods_made(place)), pods_deleted(place)) == (2, set())
    lost = lose_a_half(place)
    history.look()
    for world in history.worlds():
        check_counts(world)
        check_pairs(world)
    delete_split(place, "pair")
    eventually(lambda: nothing_is_left(place), "nothing is left", timeout_seconds=90)
    assert Others.now(place) == others
    assert pods_made(place)[:2] == ["0-0", "0-0"]
    assert pods_deleted(place) <= {lost}
    return found


def nothing_is_left(place: Place) -> bool:
    """Of all that wears our labels and of all pods, the stranger alone."""
    return {*place.left_over(), *(pod["metadata"]["name"] for pod in place.pods())} == {STRANGER}


def is_settled(place: Place) -> bool:
    return split_condition(place, "pair", "Ready")[0] == "True" and all(
        place.is_ready(name, 1) for name in ("pair-prefill", "pair-decode")
    )


def lose_a_half(place: Place) -> str:
    """S6: the only prefill engine fails, and the pair's address chooses nothing; gives the name of its pod."""
    (half,) = (pod["metadata"]["name"] for pod in engines(place, "pair-prefill"))
    crash_container(place.weft.cluster, place.namespace, half, Crash(after=AfterCrash.FAIL))
    eventually(lambda: not routed(place), "nothing is sent to half a pair", timeout_seconds=60)
    return str(half)


def routed(place: Place) -> bool:
    """Whether the address of the pair chooses its front."""
    (service,) = (body for body in place.objects("api/v1/services") if body["metadata"]["name"] == "pair")
    return bool(service["spec"]["selector"][labels.ROUTED] == "true")


def check_history(life: Life) -> None:
    """S1, S2, S4 and S9 after every single change that anybody made, and assignments before pods."""
    nodes = {f"{life.history.place.namespace}-{node.name}": node for node in RACKS}
    born = 0
    for world in life.history.worlds():
        check_rules(world, nodes)
        check_counts(world)
        check_assigned_first(world)
        assert world.ready("chat") >= life.floor(world.version), f"too few serve at version {world.version}"
        born += world.born is not None
    assert born == 6


def pods_made(place: Place) -> list[str]:
    """Replica and rank of every engine pod that was ever created, none of them twice."""
    names = pods(place, "create")
    assert len(set(names)) == len(names)
    return sorted(name.split("-", name.count("-") - 1)[-1] for name in names)


def pods_deleted(place: Place) -> set[str]:
    """Every pod that Weft deleted; to ask twice, before a cache has heard of it, changes nothing."""
    return set(pods(place, "delete"))


def pods(place: Place, verb: str) -> list[str]:
    """Names of the pods to which Weft did that."""
    asked = writes(place.weft.cluster)
    done = [each for each in asked if (each.verb, each.resource, each.namespace) == (verb, "/pods", place.namespace)]
    return [each.name for each in done if each.code < REFUSED]


def resting_state(place: Place, operator: OperatorProcess, plurals: list[str], expected: str | None) -> str:
    """The state once it is the expected one; without one, when it has not changed over some decisions and for a while.

    A while alone says nothing of an operator that a busy machine did not let decide.
    """
    seen: list[tuple[str, float, float]] = []

    def rests() -> str:
        found = state(place, plurals)
        if expected is not None:
            assert found == expected
            return found
        now, decided = time.monotonic(), operator.metric(DECISIONS)
        seen[:] = seen if seen and seen[0][0] == found else [(found, now, decided)]
        _, since, before = seen[0]
        return found if now - since > REST_SECONDS and decided >= before + DECISIONS_OF_A_REST else ""

    return eventually(rests, "the state stays", timeout_seconds=60)


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


def mortal_operator(place: Place) -> OperatorProcess:
    """One operator after the other that serves a place; each dies after a write."""
    port, name = free_port(), f"mortal-{place.namespace}"
    command = [sys.executable, "-m", "tests.scenarios.mortal_operator", str(place.weft.kubeconfig), place.namespace]
    return OperatorProcess(place.weft.cluster.processes.start(name, [*command, str(port)], OF_THIS_TREE), port)


def deaths(operator: OperatorProcess) -> int:
    """How often it died; it is there to this moment."""
    assert operator.running, operator.process.tail()
    return operator.process.log.read_text().count("killed\n")
