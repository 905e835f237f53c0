"""What somebody deletes each time is made again at once a few times, and then ever more seldom. Rules: S1, F12."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.apply.test_outcomes import PATH, deployment
from tests.apply.test_sending import POD, Outbox
from tests.protocol.scripted_server import ScriptedServer
from weft.apply import DeletedAgain
from weft.apply.patience import AT_ONCE, FIRST_REST_SECONDS, SETTLED_SECONDS
from weft.apply.recreations import LONGEST_ABSENCE_SECONDS, Recreations
from weft.domain.action import ApplyObject, CreatePod, DeleteObject
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.action import Action

Json = dict[str, Any]

BODY = deployment()
DELETED = DeleteObject("apps/v1", "Deployment", "team", "front", "u-1")


class Pruned(Outbox):
    """An API server whose objects somebody deletes as soon as they are there; `made` counts them."""

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__(server)
        self.made = 0
        server.answer = self.take

    def take(self, request: web.Request) -> web.Response:
        """Read nothing, or take it in."""
        if request.method in {"GET", "DELETE"}:
            return web.json_response({}, status=404)
        self.made += 1
        body = json.loads(self.server.requests[-1].body)
        return web.json_response({**body, "metadata": {**body["metadata"], "uid": f"u-{self.made}"}})

    def told(self, action: Action) -> str | None:
        """One pass that finds it gone: what is told, where anything is."""
        try:
            self.writer.carry_out(action)
        except DeletedAgain as error:
            return f"{error.reason.value}: {error.message}"
        return None


@pytest.fixture
def pruned() -> Iterator[Pruned]:
    with ScriptedServer() as server:
        yield Pruned(server)


def test_an_object_comes_back_at_once_a_few_times_and_is_then_told_and_left(pruned: Pruned) -> None:
    told = [pruned.told(ApplyObject(BODY)) for _ in range(30)]
    assert 1 + AT_ONCE == pruned.made
    assert [None] * AT_ONCE == told[:AT_ONCE]
    (words,) = set(told[AT_ONCE:])  # one status, however long it lasts
    assert words is not None
    assert words.startswith(f"{Reason.ChildReverted.value}: Deployment team/front is deleted each time")


def test_a_pod_that_is_deleted_before_it_is_on_a_node_is_too(pruned: Pruned) -> None:
    """Each pass made it anew, as fast as passes and their budget of writes went."""
    told = [pruned.told(CreatePod(POD)) for _ in range(30)]
    assert 1 + AT_ONCE == pruned.made
    assert told[-1] is not None
    assert told[-1].startswith(f"{Reason.PodDeleted.value}: Pod team/p is deleted each time")


def test_another_rendering_is_made_at_once(pruned: Pruned) -> None:
    for _ in range(9):
        pruned.told(ApplyObject(BODY))
    assert pruned.told(ApplyObject(deployment("vllm/router:2"))) is None


def test_what_weft_deleted_itself_was_deleted_by_nobody_else(pruned: Pruned) -> None:
    """A front that is switched off and on again."""
    for _ in range(9):
        assert pruned.told(ApplyObject(BODY)) is None
        pruned.writer.carry_out(DELETED)
    assert pruned.made == 9


def made_at(until: float, deleted_after: float = 0.0) -> list[float]:
    """When an object is made that somebody deletes so many seconds later, of passes each second."""
    now, times = 0.0, list[float]()
    recreations = Recreations(lambda: now)
    while now < until:
        if not times or now - times[-1] >= deleted_after:
            try:
                recreations.expect_rested(PATH, BODY)
            except DeletedAgain as error:
                assert 0.0 < error.seconds <= LONGEST_ABSENCE_SECONDS  # noqa: PT017 - of each that waits
            else:
                recreations.note(PATH, BODY)
                times.append(now)
        now += 1.0
    return times


def test_absences_grow_to_a_minute() -> None:
    times = made_at(3600.0)
    pauses = [after - before for before, after in pairwise(times)]
    assert [1.0] * AT_ONCE == pauses[:AT_ONCE]
    assert [FIRST_REST_SECONDS * 2**index for index in range(3)] == pauses[AT_ONCE : AT_ONCE + 3]
    assert {LONGEST_ABSENCE_SECONDS} == set(pauses[AT_ONCE + 3 :])


@pytest.mark.parametrize("every", [LONGEST_ABSENCE_SECONDS, 180.0, SETTLED_SECONDS])
def test_what_is_deleted_seldom_is_there_again_at_once_for_ever(every: float) -> None:
    """As by a tool that prunes every three minutes: to wait would only make the absence longer."""
    assert [every * index for index in range(8)] == made_at(8 * every, every)


def test_a_quarter_of_an_hour_forgives() -> None:
    now = [0.0]
    recreations = Recreations(lambda: now[0])
    for _ in range(1 + AT_ONCE):
        recreations.note(PATH, BODY)
    now[0] = SETTLED_SECONDS
    recreations.note(PATH, BODY)
    recreations.expect_rested(PATH, BODY)
    recreations.expect_to_stay(PATH, BODY)
