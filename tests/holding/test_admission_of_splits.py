"""Whatever an API server makes of a split's writes, and in whatever order its events come: all comes to rest.

Every rank is one pod, none that serves is deleted before fronts have forgotten it, and a pod stays in its
generation. Rules of docs/rules.md: S2, S3, S6, S10, L1, L3, L5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding.admission import CONTAINER, LABELS, LIMITS, LOST, SIDECAR, THROTTLED
from tests.holding.admitted_pairs import AdmittedPair
from tests.holding.cluster import boards
from tests.holding.pairs import split_body
from tests.holding.picked import picked_body
from tests.holding.test_split_walks import Picked, Step, Walk, assert_comes_to_rest, halves
from tests.holding.test_split_walks import events as hardships
from tests.holding.test_split_walks import passes as everybody

if TYPE_CHECKING:
    from collections.abc import Callable

injected = st.frozensets(st.sampled_from([CONTAINER, SIDECAR, LABELS, LIMITS]))
admissions = st.one_of(
    st.tuples(st.just("room"), st.one_of(st.none(), st.integers(0, 6)), st.none()),
    st.tuples(st.just("inject"), injected, st.none()),
    st.tuples(st.just("answer"), st.lists(st.sampled_from(["", LOST, THROTTLED]), max_size=6), st.none()),
    st.tuples(st.just("lag"), st.booleans(), st.none()),
    st.tuples(st.just("show"), st.integers(0, 11), st.none()),
    st.tuples(st.just("mix"), st.integers(0, 99), st.none()),
    st.tuples(st.just("lag objects"), st.booleans(), st.none()),
    st.tuples(st.just("see all"), st.none(), st.none()),
    st.tuples(st.just("end"), st.booleans(), st.none()),
    st.tuples(st.just("another"), st.none(), st.none()),
    st.tuples(st.just("stuck"), st.booleans(), st.none()),
    st.tuples(st.just("force"), halves, st.integers(0, 7)),
)
walks = st.lists(st.one_of(admissions, hardships, everybody), max_size=40)


class AdmittedWalk(Walk):
    """A split, and what may happen to it and to what it writes."""

    world: AdmittedPair

    def take(self, step: Step) -> None:
        self.world.watched.note()
        super().take(step)
        self.world.look()

    def room(self, room: int | None, _: None) -> None:
        self.world.room = room

    def inject(self, kinds: frozenset[str], _: None) -> None:
        self.world.injects = kinds

    def answer(self, answers: list[str], _: None) -> None:
        self.world.answers = list(answers)

    def lag(self, on: bool, _: None) -> None:  # noqa: FBT001 - values of one step
        self.world.misled = True
        self.world.watched.lag(on=on)

    def show(self, ago: int, _: None) -> None:
        self.world.misled = True
        self.world.watched.show(ago)

    def mix(self, seed: int, _: None) -> None:
        self.world.misled = True
        self.world.watched.mix(seed)

    def lag_objects(self, on: bool, _: None) -> None:  # noqa: FBT001 - values of one step
        self.world.misled = True
        self.world.lag_objects(on=on)

    def see_all(self, *_: None) -> None:
        self.world.see_all()

    def end(self, on: bool, _: None) -> None:  # noqa: FBT001 - values of one step
        self.world.ends = on

    def another(self, *_: None) -> None:
        self.world.another()

    def stuck(self, on: bool, _: None) -> None:  # noqa: FBT001 - values of one step
        self.world.stuck = on

    def force(self, pool: str, index: int) -> None:
        found = self.world.pods_of(pool)
        if found:
            self.world.watched.force_delete(found[index % len(found)]["metadata"]["name"])

    def strategy(self, name: str, _: None) -> None:
        self.world.misled = True
        super().strategy(name, _)

    def heal(self) -> None:
        world = self.world
        world.room, world.answers, world.ends, world.stuck, world.injects = None, [], False, False, frozenset()
        super().heal()


class AdmittedPicked(AdmittedPair, Picked):
    """The same behind a Gateway."""


def routed() -> AdmittedPair:
    return AdmittedPair.on(boards(4), split_body(2, 2, engine={"name": "VLLM"}))


def picked() -> AdmittedPair:
    return AdmittedPicked.on(boards(4), picked_body(2, 2, engine={"name": "VLLM"}))


@pytest.mark.parametrize("begun", [routed, picked])
@settings(max_examples=12, deadline=None)
@given(first=st.integers(0, 12), walk=walks)
def test_whatever_becomes_of_its_writes_and_events_a_split_comes_to_rest(
    begun: Callable[[], AdmittedPair], first: int, walk: list[Step]
) -> None:
    course = AdmittedWalk(begun())
    for step in (("turn", first, 5.0), *walk):
        course.take(step)
    course.heal()
    assert_comes_to_rest(course.world)
