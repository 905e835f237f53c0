"""How far a start is stands in the conditions, beside what it should take, and is written once a minute at most."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.converge.world import World
from tests.render.pools import UID, changed, plan, pool, shape, spec, split
from weft.converge import converge_pool, converge_split
from weft.converge.leaving import Heard
from weft.converge.phases import LOADS, Phase
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import ModelSource, ModelSpec, SourceKind
from weft.domain.start_up import StartUp
from weft.domain.texts.times import known_instant
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord

    Hearing = Callable[[tuple[PodRecord, ...]], tuple[PodRecord, ...]]

Json = dict[str, Any]

BOUND, RUNS = "2026-07-01T08:00:00Z", "2026-07-01T08:01:30Z"
EIGHT = known_instant(BOUND) or math.nan
ESTIMATED = StartUp(image=100, weights=68, engine=148)
ON_IT = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}]


def one_pod(start_up: StartUp | None = ESTIMATED, source: ModelSource | None = None) -> PoolRecord:
    wanted = spec(model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source))
    return changed(pool(wanted, plan(shape(8)), ("node-a",)), start_up=start_up)


def two_pods() -> PoolRecord:
    chosen = plan(shape(8, pipeline_parallel=2, gpus_per_pod=8))
    return changed(pool(spec(), chosen, ("node-a", "node-b")), start_up=ESTIMATED)


def on_its_nodes(record: PoolRecord) -> World:
    """All pods were released and bound at eight."""
    world = World()
    for _ in range(2):
        world.carry_out(*world.look(record).actions)
    for body in world.pods.values():
        body["spec"]["nodeName"] = world.node_for(body)
        body["status"] = {"phase": "Pending", "conditions": list(ON_IT)}
    return world


def run(body: Json, *, started: bool = False) -> None:
    """Its container runs from half past one on."""
    engine = {"name": "engine", "started": started, "state": {"running": {"startedAt": RUNS}}}
    body["status"] = {"phase": "Running", "conditions": list(ON_IT), "containerStatuses": [engine]}


def told(world: World, record: PoolRecord, after: float, hearing: Hearing = lambda pods: pods) -> str:
    """The words of both conditions, which are the same but for the reason."""
    seen, pods = world.noted(record), hearing(world.pod_records())
    progress = converge_pool(seen, world.fabric(), pods, (), Heard(EIGHT + after)).progress
    ready, moving = progress.conditions
    assert (ready.explanation.reason, moving.explanation.reason) == (Reason.ReplicasStarting, Reason.Scaling)
    assert moving.explanation.message in {ready.explanation.message, "0 of 1 replicas are ready"}
    return ready.explanation.message.partition("; ")[2]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (0, "replica 3 pulls its image (about 100 s estimated)"),
        (59, "replica 3 pulls its image (about 100 s estimated)"),
        (75, "replica 3 pulls its image (60 s of about 100 s estimated)"),
        (500, "replica 3 pulls its image (more than twice the 100 s estimated)"),
    ],
)
def test_an_image_that_is_pulled_beside_its_estimate(after: float, words: str) -> None:
    record = one_pod()
    assert told(on_its_nodes(record), record, after) == words


@pytest.mark.parametrize("known", [ESTIMATED, None], ids=["estimated", "unknown"])
def test_a_node_that_mounts_no_volume_is_named_after_a_minute_with_where_to_look(known: StartUp | None) -> None:
    """It is no image that is waited for, and Kubernetes says what it is in events of the pod alone."""
    record = one_pod(known)
    world = on_its_nodes(record)
    (body,) = world.pods.values()
    body["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "False"})
    assert told(world, record, 5).startswith("replica 3 pulls its image")
    name = body["metadata"]["name"]
    stuck = f"replica 3 waits for volumes, devices or network of {name} on node-a"
    assert told(world, record, 60) == f"{stuck}: kubectl describe pod -n team {name} says why"
    body["status"]["conditions"][-1]["status"] = "True"
    assert told(world, record, 61).startswith("replica 3 pulls its image")


def test_a_model_that_is_loaded_beside_what_weights_and_engine_should_take() -> None:
    record = one_pod()
    world = on_its_nodes(record)
    run(*world.pods.values())
    assert told(world, record, 90 + 130) == "replica 3 loads the model (120 s of about 216 s estimated)"


def test_whole_starts_are_what_was_measured() -> None:
    """Of which nobody knows the parts, so that the time is that since all pods have their nodes."""
    record = one_pod(replace(ESTIMATED, measured=140))
    world = on_its_nodes(record)
    run(*world.pods.values())
    assert told(world, record, 130) == "replica 3 loads the model (120 s of about 140 s measured for a whole start)"


PHASES_KNOWN = replace(ESTIMATED, measured=140, phases=(2, 38, 0, 60, 40))


@pytest.mark.parametrize(
    ("runs_yet", "after", "words"),
    [
        (False, 75, "replica 3 pulls its image (60 s of about 40 s measured)"),
        (False, 130, "replica 3 pulls its image (more than twice the 40 s measured)"),
        (True, 90 + 70, "replica 3 loads the model (60 s of about 100 s measured)"),
        (True, 90 + 250, "replica 3 loads the model (more than twice the 100 s measured)"),
    ],
)
def test_a_phase_that_is_slow_is_named_beside_what_it_took_before(*, runs_yet: bool, after: float, words: str) -> None:
    record = one_pod(PHASES_KNOWN)
    world = on_its_nodes(record)
    if runs_yet:
        run(*world.pods.values())
    assert told(world, record, after) == words


def test_weights_that_are_a_volume_are_pulled_with_the_image() -> None:
    record = one_pod(source=ModelSource(SourceKind.Image, "registry/weights:1"))
    world = on_its_nodes(record)
    assert told(world, record, 70) == "replica 3 pulls its image and its weights (60 s of about 168 s estimated)"
    run(*world.pods.values())
    assert told(world, record, 90) == "replica 3 loads the model (about 148 s estimated)"


def test_a_replica_of_two_pods_loads_once_both_run() -> None:
    record = two_pods()
    world = on_its_nodes(record)
    first, second = world.pods.values()
    run(first)
    assert told(world, record, 100).startswith("replica 3 pulls its image")
    run(second, started=True)  # it has no probe
    assert told(world, record, 100).startswith("replica 3 loads the model")


def test_without_an_estimate_the_phase_alone_is_told() -> None:
    """As long as deciding has not looked since an upgrade."""
    record = one_pod(None)
    assert told(on_its_nodes(record), record, 300) == "replica 3 pulls its image"


def test_an_engine_that_has_answered_and_does_no_more_does_not_load() -> None:
    record = one_pod()
    world = on_its_nodes(record)
    run(*world.pods.values(), started=True)
    assert told(world, record, 300) == "the others start or load the model"


def test_the_scheduler_is_quoted_and_not_a_phase() -> None:
    record = one_pod()
    world = on_its_nodes(record)
    (body,) = world.pods.values()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    del body["spec"]["nodeName"]
    body["status"] = {"phase": "Pending", "conditions": [refused], "nominatedNodeName": "node-a"}
    assert "pulls" not in told(world, record, 300)


def test_the_first_of_several_is_told_of() -> None:
    record = changed(pool(spec(), plan(shape(8)), ("node-a",), ("node-b",)), start_up=ESTIMATED)
    world = on_its_nodes(record)
    seen = world.noted(record)
    conditions = converge_pool(seen, world.fabric(), world.pod_records(), (), Heard(EIGHT)).progress.conditions
    words = "0 of 2 replicas are ready; replica 3 pulls its image (about 100 s estimated), and 1 more starts"
    assert {each.explanation.message for each in conditions} == {words}


def test_a_pool_that_serves_is_not_looked_at_again() -> None:
    """L3: time changes nothing about it."""
    record, world = one_pod(), World()
    world.settle(record)
    assert world.look(record).again_seconds is None


def test_a_start_is_looked_at_again_when_a_minute_is_over() -> None:
    record = one_pod()
    world = on_its_nodes(record)
    done = converge_pool(world.noted(record), world.fabric(), world.pod_records(), (), Heard(EIGHT + 40))
    assert done.again_seconds == pytest.approx(20.5)


PHASES = st.builds(Phase, st.just(3), st.just(LOADS), st.floats(0, 1e6), st.integers(0, 4000), st.just("estimated"))


@given(PHASES, st.floats(0.0, 600.0))
def test_words_change_when_they_say_and_once_a_minute_at_most(phase: Phase, first: float) -> None:
    """Whenever one looks first and follows what is told: no word twice, a minute between any two, and then an end."""
    now, seen = phase.since + first, []
    while (wait := phase.changes_after_seconds(now)) is not None:
        seen.append((now, phase.told(now)))
        assert 0 < wait <= 61
        assert phase.told(now + max(0.0, wait - 0.6)) == phase.told(now)
        now += wait
    seen.append((now, phase.told(now)))
    assert len({words for _, words in seen}) == len(seen)
    assert all(later - earlier > 59 for (earlier, _), (later, _) in pairwise(seen[1:]))
    assert "more than twice" in phase.told(now)
    assert phase.told(now + 1e5) == phase.told(now)


def test_a_rollout_tells_how_far_its_new_replica_is() -> None:
    record = changed(pool(spec(), plan(shape(8)), ("node-a",), ("node-b",)), start_up=ESTIMATED)
    world = on_its_nodes(record)
    first, second = record.status.assignments
    record = changed(record, assignments=(replace(first, revision="before"), second))
    seen = world.noted(record)
    _, moving = converge_pool(seen, world.fabric(), world.pod_records(), (), Heard(EIGHT)).progress.conditions
    assert moving.explanation.reason is Reason.RollingOut
    assert "are of an earlier revision; replica 3 pulls its image (about 100 s estimated)" in moving.explanation.message


def test_a_split_says_which_half_starts() -> None:
    record = split()
    key = ResourceKey("InferencePool", "team", record.child_name(Role.Decode), UID)
    decode = replace(one_pod(), key=key, split_uid=record.key.uid)
    world = on_its_nodes(decode)
    done = converge_split(record, [world.noted(decode)], (), world.pod_records(), EIGHT + 70)
    (ready,) = [each for each in done.progress.conditions if each.kind == "Ready"]
    words = "0 of 0 prefill, 0 of 1 decode replicas are ready; decode replica 3 pulls its image"
    assert ready.explanation == Explanation(Reason.ReplicasStarting, f"{words} (60 s of about 100 s estimated)")
    assert done.again_seconds == pytest.approx(50.5)


def downloads(body: Json, *, begun: str = RUNS, done: bool = False) -> None:
    """Its init container runs from half past one on, or has."""
    state = {"terminated": {"exitCode": 0, "startedAt": begun}} if done else {"running": {"startedAt": begun}}
    body["status"]["initContainerStatuses"] = [{"name": "weights", "state": state}]


def with_bytes(*figures: tuple[float, float]) -> Hearing:
    """What each of the pods told of its download."""

    def told_of(pods: tuple[PodRecord, ...]) -> tuple[PodRecord, ...]:
        return tuple(
            replace(pod, download=replace(pod.download, here=here, total=total)) if pod.download else pod
            for pod, (here, total) in zip(pods, figures, strict=True)
        )

    return told_of


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ((0, 0), "replica 3 downloads its weights (60 s of about 216 s estimated)"),  # it has not told anything yet
        ((0, 16e9), "replica 3 downloads its weights, 0% of 16 GB (60 s of about 216 s estimated)"),
        ((6.08e9, 16e9), "replica 3 downloads its weights, 38% of 16 GB (60 s of about 216 s estimated)"),
    ],
)
def test_a_download_tells_how_far_it_is(figures: tuple[float, float], words: str) -> None:
    """Beside what the weights and the engine's own start should take, which is what comes after the image."""
    record = one_pod(source=ModelSource(SourceKind.HuggingFace, "a/b", warm_up=True))
    world = on_its_nodes(record)
    downloads(*world.pods.values())
    assert told(world, record, 90 + 75, with_bytes(figures)) == words


def test_a_download_is_told_of_as_long_as_it_lasts() -> None:
    """Also once it takes more than twice as long as it should."""
    record = one_pod()
    world = on_its_nodes(record)
    downloads(*world.pods.values())
    pods = with_bytes((1e9, 16e9))(world.pod_records())
    done = converge_pool(world.noted(record), world.fabric(), pods, (), Heard(EIGHT + 90 + 1000))
    assert "6% of 16 GB (more than twice the 216 s estimated)" in done.progress.conditions[0].explanation.message
    assert done.again_seconds == 15.0


def test_of_two_pods_the_slower_download_is_told() -> None:
    record = two_pods()
    world = on_its_nodes(record)
    for body in world.pods.values():
        downloads(body)
    assert told(world, record, 100, with_bytes((9e9, 16e9), (4e9, 16e9))).startswith(
        "replica 3 downloads its weights, 25% of 16 GB"
    )


def test_what_was_downloaded_is_loaded_and_the_time_is_that_of_both() -> None:
    """What should pass is known of the two together."""
    record = one_pod()
    world = on_its_nodes(record)
    (body,) = world.pods.values()
    run(body)
    downloads(body, begun="2026-07-01T08:00:30Z", done=True)
    assert told(world, record, 90 + 65) == "replica 3 loads the model (120 s of about 216 s estimated)"
