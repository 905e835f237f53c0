"""What a controller changes back after each apply is put back ever more seldom, and its field manager is named."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.apply.test_outcomes import PATH, deployment
from tests.apply.test_sending import Outbox
from tests.protocol.scripted_server import ScriptedServer
from weft.apply.outcomes import LONGEST_REST_SECONDS, ApplyIntent, Outcomes
from weft.apply.patience import AT_ONCE, FIRST_REST_SECONDS, SETTLED_SECONDS
from weft.domain import labels
from weft.domain.action import ApplyObject
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

WANTED = ApplyObject(deployment())
OURS = {"manager": labels.CONVERGE_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:image": {}}}}
THEIRS = {
    "manager": "sidecar-injector",
    "operation": "Update",
    "time": "2026-11-27T10:00:00Z",
    "fieldsV1": {"f:metadata": {"f:annotations": {"f:note": {}}}, "f:spec": {"f:replicas": {}, "f:paused": {}}},
}
CLUSTER = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "subresource": "status",
    "time": "2026-11-27T11:00:00Z",
    "fieldsV1": {"f:status": {"f:readyReplicas": {}}},
}


class Contested(Outbox):
    """An API server that keeps one Deployment, which somebody else writes, too; `applied` counts our writes."""

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__(server)
        self.live: Json | None = None
        self.applied = 0
        server.answer = self.take

    def take(self, request: web.Request) -> web.Response:
        """Read it, or take it in."""
        if request.headers["Content-Type"] == "application/apply-patch+yaml":
            self.applied += 1
            body = json.loads(self.server.requests[-1].body)
            body["metadata"] |= {"uid": "u-1", "resourceVersion": str(self.applied), "managedFields": [OURS]}
            self.live = body
        return web.json_response(self.live or {}, status=200 if self.live is not None else 404)

    def is_undone(self, *managers: Json, **spec: Any) -> None:  # noqa: ANN401 - any JSON
        """Somebody else writes these fields."""
        assert self.live is not None
        self.live["spec"] |= spec
        self.live["metadata"]["managedFields"] = [OURS, *managers]

    def apply(self, action: ApplyObject = WANTED) -> str | None:
        """One pass that finds the object different: what is told, where anything is."""
        try:
            self.writer.carry_out(action)
        except Blocked as error:
            return f"{error.reason.value}: {error.message}"
        return None

    def fight(self, times: int, *managers: Json, **spec: Any) -> str:  # noqa: ANN401 - any JSON
        """So many passes, after each of which somebody else writes these fields: what is told in the end."""
        told = None
        for _ in range(times):
            told = self.apply()
            self.is_undone(*managers, **spec)
        return told or ""


@pytest.fixture
def contested() -> Iterator[Contested]:
    with ScriptedServer() as server:
        yield Contested(server)


def test_it_is_put_back_a_few_times_and_then_told_and_left(contested: Contested) -> None:
    told = []
    for _ in range(30):
        told.append(contested.apply())
        contested.is_undone(THEIRS, CLUSTER, replicas=9, paused=True)
    assert 1 + AT_ONCE == contested.applied
    assert [None] * AT_ONCE == told[:AT_ONCE]
    (words,) = set(told[AT_ONCE:])  # one status, however long it lasts
    assert words is not None
    assert words.startswith(Reason.ChildReverted.value)
    assert "Deployment team/front is changed back by sidecar-injector (spec.replicas) after each apply:" in words


def test_what_is_as_the_last_apply_left_it_is_no_news(contested: Contested) -> None:
    """A webhook may have changed it within the request, so that each pass finds it different."""
    assert [contested.writer.carry_out(WANTED) for _ in range(3)] == [True, False, False]


def test_it_is_told_until_it_is_seen_to_stay(contested: Contested) -> None:
    assert contested.fight(1 + AT_ONCE, THEIRS, replicas=9)
    contested.is_undone(THEIRS, replicas=2)  # as it was applied
    assert contested.apply() is None
    assert 1 + AT_ONCE == contested.applied


def test_an_autoscaler_is_named_by_what_it_scales(contested: Contested) -> None:
    """It writes the spec by a subresource."""
    scale = {**CLUSTER, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    told = contested.fight(1 + AT_ONCE, scale, replicas=9)
    assert "is changed back by kube-controller-manager (spec.replicas) after each apply:" in told


@pytest.mark.parametrize(
    ("managers", "who"), [((THEIRS, CLUSTER), "sidecar-injector"), ((CLUSTER,), "somebody"), ((), "somebody")]
)
def test_of_what_is_taken_away_whoever_wrote_last_is_named(
    contested: Contested, managers: tuple[Json, ...], who: str
) -> None:
    """Nobody owns a field that is not there."""
    told = contested.fight(2 + AT_ONCE, *({**each, "fieldsV1": {}} for each in managers), image=None)
    assert f"is changed back by {who} after each apply:" in told


def test_another_rendering_is_applied_at_once(contested: Contested) -> None:
    contested.fight(2 + AT_ONCE, THEIRS, replicas=9)
    assert contested.apply(ApplyObject(deployment("vllm/router:2"))) is None
    assert 2 + AT_ONCE == contested.applied


def test_one_that_was_deleted_is_made_at_once(contested: Contested) -> None:
    """Requests may need it; and it is not there to be fought over."""
    contested.fight(2 + AT_ONCE, THEIRS, replicas=9)
    contested.live = None
    assert contested.apply() is None
    assert contested.live is not None


def test_it_counts_as_undone_whatever_had_to_be_patched_first(contested: Contested) -> None:
    """That goes by what others did, and the rendering is the same."""
    for number in range(30):
        patch = {"op": "remove", "path": f"/spec/field-{number}"}
        contested.apply(ApplyObject(deployment(), first=(patch,)))
        contested.is_undone(THEIRS, replicas=9)
    assert 1 + AT_ONCE == contested.applied


def applied_at(until: float, undone_after: float = 0.0) -> list[float]:
    """When an object is applied that somebody changes back so many seconds later, of passes each second."""
    now, times = 0.0, list[float]()
    outcomes, asked = Outcomes(lambda: now), ApplyIntent.of(PATH, WANTED)
    while now < until:
        if (not times or now - times[-1] >= undone_after) and not outcomes.rests(asked):
            outcomes.note(asked, WANTED.body)
            times.append(now)
        now += 1.0
    return times


def test_pauses_grow_to_five_minutes() -> None:
    times = applied_at(7200.0)
    pauses = [after - before for before, after in pairwise(times)]
    assert [1.0] * AT_ONCE == pauses[:AT_ONCE]
    assert [FIRST_REST_SECONDS * 2**index for index in range(5)] == pauses[AT_ONCE : AT_ONCE + 5]
    assert {LONGEST_REST_SECONDS} == set(pauses[AT_ONCE + 5 :])
    assert 35 > len(times)


def test_what_is_changed_seldom_is_put_back_at_once_for_ever() -> None:
    """As by people, a quarter of an hour after it was put back last."""
    assert [SETTLED_SECONDS * index for index in range(8)] == applied_at(7200.0, SETTLED_SECONDS)
