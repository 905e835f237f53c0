"""A pool may be edited in any phase of its life, deleted, and made again: nothing is lost without need, all rests.

Walks over every kind of edit, valid or not, with passes of everybody in any order between, and an operator that dies
after any of its writes. Rules of docs/rules.md: S1, S2, S3, S10, L1, L2, L5.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding.cluster import boards, node_body
from tests.holding.edited import EDITS, FIRST, Edited, gpus_promised
from tests.holding.operation import Died
from weft.domain import labels

NAMES = ["chat", "chat-prefill"]
Step = tuple[str, Any, Any]

names = st.sampled_from(NAMES)
edits = st.tuples(st.sampled_from(sorted(EDITS)), st.integers(0, 5))
turns = st.tuples(st.just("turn"), st.integers(1, 4), st.sampled_from([1.0, 5.0, 40.0]))
users = st.one_of(
    st.tuples(st.just("change"), names, edits),
    st.tuples(st.just("change"), names, edits),
    st.tuples(st.just("change"), names, edits),
    st.tuples(st.just("unmake"), names, st.none()),
    st.tuples(st.just("make"), names, st.none()),
)
others = st.one_of(
    st.tuples(st.just("set the clock"), st.sampled_from([-3600.0, -60.0]), st.none()),
    st.tuples(st.just("decide"), st.none(), st.none()),
    st.tuples(st.just("converge"), names, st.none()),
    st.tuples(st.just("step"), st.none(), st.none()),
    st.tuples(st.just("run"), st.none(), st.none()),
    st.tuples(st.just("collect garbage"), st.none(), st.none()),
    st.tuples(st.just("die"), st.integers(1, 8), st.none()),
    st.tuples(st.just("conflict"), names, st.booleans()),
)
walks = st.lists(st.one_of(turns, users, others), min_size=15, max_size=30)


def world() -> Edited:
    """Room for both pools beside what they had before, in every shape, on either accelerator."""
    made = Edited.of([*boards(3), *(node_body(f"c-{index}", "NVIDIA-B200", 8, "") for index in range(3))])
    for name in NAMES:
        made.make(name)
    return made


def take(course: Edited, step: Step) -> None:
    """One thing that happens, or one pass of somebody."""
    what, first, second = step
    try:
        STEPS[what](course, first, second)
    except Died:
        course.restart()


def turn(course: Edited, turns: int, seconds: float) -> None:
    for _ in range(turns):
        course.cluster.now += seconds
        decide(course)
        for name in list(course.bodies):
            course.converge(name)
        course.go_on()


def decide(course: Edited) -> None:
    """S1 and S2: whoever serves is given up as far as the rollout allows, and no GPU is promised twice."""
    before = {name: course.answering(name) for name in course.bodies}
    try:
        course.decide()
    finally:
        for name, served in before.items():
            rollout = course.bodies[name]["spec"].get("rollout", {})
            if rollout.get("strategy") != "Recreate":
                wanted = course.pool(name).status.desired_replicas - rollout.get("maxUnavailable", 0)
                kept = len(served & set(course.replicas(name)))
                assert kept >= min(wanted, len(served)), (name, course.describe())
        assert all(count <= 8 for count in gpus_promised(course).values()), course.describe()


def heal(course: Edited) -> None:
    """In the end both are there, and what is asked of them can be."""
    course.restart()
    for name in NAMES:
        course.make(name)
        for each in FIRST:
            course.change(name, each, 0)
        course.edit(name, scaling=EDITS["scaling"][0])


def _converge(course: Edited, name: str, _: None) -> None:
    if name in course.bodies:
        course.converge(name)


def _set_the_clock(course: Edited, seconds: float, _: None) -> None:
    course.cluster.now += seconds


def _die(course: Edited, writes: int, _: None) -> None:
    course.writes_left = writes


def _conflict(course: Edited, name: str, on: bool) -> None:  # noqa: FBT001 - values of one step
    (course.edited.add if on else course.edited.discard)(name)


STEPS: dict[str, Any] = {
    "change": lambda course, name, edit: course.change(name, *edit),
    "unmake": lambda course, name, _: course.unmake(name),
    "make": lambda course, name, _: course.make(name),
    "set the clock": _set_the_clock,
    "decide": lambda course, *_: decide(course),
    "converge": _converge,
    "step": lambda course, *_: course.cluster.step(),
    "run": lambda course, *_: course.cluster.run(),
    "collect garbage": lambda course, *_: course.collect_garbage(),
    "die": _die,
    "conflict": _conflict,
    "turn": turn,
}


@settings(max_examples=25, deadline=None)
@given(walk=walks)
def test_whatever_is_edited_when_nothing_is_lost_and_all_comes_to_rest(walk: list[Step]) -> None:
    """L2: after the last edit each pool serves as that asks for, with nothing left of what was before."""
    course = world()
    for step in walk:
        take(course, step)
    heal(course)
    course.rest()
    assert_as_asked(course)


def assert_as_asked(course: Edited) -> None:
    """Each pool serves as its spec says, has said so, and nothing else is left."""
    for name in NAMES:
        assert course.serving(name) == course.replicas(name), course.describe()
        assert len(course.replicas(name)) == 1, course.describe()
        assert course.condition(name, "Placed")[0] == "True", course.conditions_of(name)
        (pod,) = course.pods_of(name)
        assert pod["metadata"]["labels"][labels.POOL_UID] == course.bodies[name]["metadata"]["uid"]
        assert not {"Stalled", "Reconciling"} & course.conditions_of(name).keys(), course.conditions_of(name)
    assert not list(course.left_over())
