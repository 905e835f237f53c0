"""Both loops as they run, before an API server that refuses, fails, conflicts or loses an answer: all comes to rest.

The walks are those of `test_edit_walks.py`, with answers of the API server between; each write is a request of the
operator's own writer. Rules of docs/rules.md: S1, S2, S3, S10, L1, L2, L3, L5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding import test_edit_walks as edit_walks
from tests.holding.cluster import boards, node_body
from tests.holding.operation import Died
from tests.holding.played_server import ANSWERS
from tests.holding.whole import Whole
from weft.apply.sending import APPLY_PATCH, MERGE_PATCH, PLAIN_JSON, STRATEGIC_PATCH
from weft.control.deciding import decision_writing

if TYPE_CHECKING:
    from tests.holding.test_edit_walks import Step

answers = st.tuples(st.just("answer"), st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=4), st.none())
walks = st.lists(
    st.one_of(edit_walks.turns, edit_walks.users, edit_walks.others, answers, answers), min_size=10, max_size=20
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses that were refused are tried in the next pass, as back-off goes by a clock that nobody sets here."""
    monkeypatch.setattr(decision_writing, "MOST_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(decision_writing, "FAILING_SECONDS", 0.0)


def world() -> Whole:
    """As that of `test_edit_walks.py`."""
    made = Whole.of([*boards(3), *(node_body(f"c-{index}", "NVIDIA-B200", 8, "") for index in range(3))])
    for name in edit_walks.NAMES:
        made.make(name)
    return made


def take(course: Whole, step: Step) -> None:
    """One thing that happens, or one pass of somebody."""
    what, first, second = step
    if what == "answer":
        course.server.answers = list(first)
    else:
        edit_walks.take(course, (what, first, second))


@settings(max_examples=10, deadline=None)
@given(walk=walks)
def test_whatever_the_api_server_answers_nothing_is_lost_and_all_comes_to_rest(walk: list[Step]) -> None:
    course = world()
    for step in walk:
        take(course, step)
    edit_walks.heal(course)
    course.rest()
    edit_walks.assert_as_asked(course)
    before = course.writes
    course.restart()
    course.turn(3)
    assert before == course.writes


WRITES = {
    "pod created": ("POST", PLAIN_JSON),
    "gate removed": ("PATCH", STRATEGIC_PATCH),
    "taken out of the front": ("PATCH", MERGE_PATCH),
    "pod deleted": ("DELETE", PLAIN_JSON),
    "status": ("PATCH", APPLY_PATCH),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_any_write_of_a_rollout_may_be_answered_so(write: tuple[str, str], answer: str) -> None:
    """And no replica is deleted while its front still chooses it."""
    course = world()
    course.rest()
    course.change("chat", "engine", 3)
    course.server.only, course.server.answers = write, [answer]
    course.rest()
    assert [] == course.server.answers
    edit_walks.assert_as_asked(course)


def test_a_process_that_ends_does_no_write_more() -> None:
    course = world()
    course.writes_left = 1
    with pytest.raises(Died):
        course.turn()
    assert 1 == course.writes
