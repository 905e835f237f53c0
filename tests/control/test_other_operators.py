"""Two operators at once, which nothing fences off: the one whose status was written by another says so."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.control.test_definitions import STATUS, Server
from weft.control.statuses.other_operators import REMEMBERED, OtherOperators
from weft.control.statuses.status_writer import StatusWriter
from weft.domain.labels import CONVERGE_MANAGER, DECIDE_MANAGER
from weft.domain.reasons import Reason
from weft.domain.snapshot import ResourceKey
from weft.domain.texts.times import instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.reasons import Explanation

KEY = ResourceKey("InferencePool", "team", "chat", "u-1")
NOW = 1_782_892_800.0


def body(written: Mapping[str, float], uid: str = KEY.uid) -> dict[str, Any]:
    """A pool whose parts of the status were written at these times, by manager."""
    entries = [{"manager": name, "subresource": "status", "time": instant(at)} for name, at in written.items()]
    return {"metadata": {"uid": uid, "managedFields": [{"manager": "kubectl", "time": instant(NOW + 99)}, *entries]}}


def found(others: OtherOperators, at: float) -> bool:
    return others.found(KEY, body({DECIDE_MANAGER: at, CONVERGE_MANAGER: NOW + 50}), DECIDE_MANAGER) is not None


@pytest.fixture
def others() -> OtherOperators:
    """Those of a process that has written once."""
    made = OtherOperators()
    made.note(body({DECIDE_MANAGER: NOW}), DECIDE_MANAGER)
    return made


def test_who_writes_in_our_name_is_told_of_once_for_each_time(others: OtherOperators) -> None:
    assert [False, True, False, True] == [found(others, NOW + after) for after in (0, 5, 5, 10)]


def test_the_user_reads_what_to_look_for(others: OtherOperators) -> None:
    told = others.found(KEY, body({DECIDE_MANAGER: NOW + 5}), DECIDE_MANAGER)
    assert told is not None
    assert Reason.StatusConflict is told.reason
    assert "another Weft operator writes the status of InferencePool/chat" in told.message
    assert "app.kubernetes.io/name=weft-controller" in told.message


def test_a_process_before_this_one_is_nobody_else() -> None:
    assert not found(OtherOperators(), NOW)


def test_a_write_of_ours_whose_answer_got_lost_is_ours(others: OtherOperators) -> None:
    others.doubt(KEY.uid)
    assert not found(others, NOW + 5)


@pytest.mark.parametrize("written", [{}, {DECIDE_MANAGER: NOW - 60}], ids=["removed", "an old one restored"])
def test_whatever_users_do_to_a_status_is_no_operator(others: OtherOperators, written: dict[str, float]) -> None:
    assert others.found(KEY, body(written), DECIDE_MANAGER) is None


def test_no_more_is_remembered_than_there_is_room_for(others: OtherOperators) -> None:
    for number in range(REMEMBERED):
        others.note(body({DECIDE_MANAGER: NOW}, uid=f"uid-{number}"), DECIDE_MANAGER)
    assert not found(others, NOW + 5)


class Shared(Server):
    """An API server that notes who wrote when, and keeps what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Reason] = []
        ours: Any = self
        self.statuses = StatusWriter(SimpleNamespace(resources=ours, writer=ours, events=ours))  # type: ignore[arg-type]

    def record(self, _: ResourceKey, event: Explanation, *, warns: bool) -> None:
        assert warns
        self.told.append(event.reason)

    def write_status(self, key: ResourceKey, status: dict[str, Any], manager: str, version: str) -> dict[str, Any]:
        answer = super().write_status(key, status, manager, version)
        entry = {"manager": manager, "subresource": "status", "time": instant(NOW + self.writes)}
        return {**answer, "metadata": {**answer["metadata"], "managedFields": [entry]}}


def test_two_operators_that_disagree_tell_both() -> None:
    one = Shared()
    other: Any = StatusWriter(SimpleNamespace(resources=one, writer=one, events=one))  # type: ignore[arg-type]
    mine = one.statuses
    for writer, replicas in [(mine, 2), (other, 3), (mine, 2), (other, 3)]:
        one.statuses = writer
        one.decide(replace(STATUS, desired_replicas=replicas))
    assert [Reason.StatusConflict] * 2 == one.told


def test_one_that_is_alone_tells_nothing() -> None:
    alone = Shared()
    for replicas in (2, 3, 2, 3):
        alone.decide(replace(STATUS, desired_replicas=replicas))
    assert [] == alone.told
