"""A label that a webhook rewrites within the request that puts it back is asked for once an hour. Rule: F12."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.apply.test_sending import Outbox
from tests.protocol.scripted_server import ScriptedServer
from weft.apply.labelling import ASKED_AGAIN_SECONDS, Labelling
from weft.domain import labels
from weft.domain.action import LabelPod, UnroutePod

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
TAGS = {labels.MANAGED_BY: labels.MANAGED_BY_WEFT}
ASKED = LabelPod("team", "p", "u1", tuple(TAGS.items()), 0.0)


class Policed(Outbox):
    """An API server at which a webhook writes one label of each pod; `rules` says whether it does."""

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__(server)
        self.rules, self.asked = True, 0
        server.answer = self.take

    def take(self, _: web.Request) -> web.Response:
        """Take a patch in."""
        self.asked += 1
        patched = json.loads(self.server.requests[-1].body)["metadata"]
        tags = {**patched["labels"], **({labels.MANAGED_BY: "policy"} if self.rules else {})}
        return web.json_response({"metadata": {"name": "p", "uid": "u1", "labels": tags}})

    def ask(self, action: LabelPod | UnroutePod, times: int = 1) -> int:
        """Puts the label back so often; gives how often the API server was asked by then."""
        for _ in range(times):
            self.writer.carry_out(action)
        return self.asked


@pytest.fixture
def policed() -> Iterator[Policed]:
    with ScriptedServer() as server:
        yield Policed(server)


def test_what_admission_undoes_is_not_asked_for_again(policed: Policed) -> None:
    """With a few thousand pods once a minute for each was more than the operator may write."""
    assert policed.ask(ASKED, times=30) == 1


def test_what_somebody_edits_later_is_put_back_each_time(policed: Policed) -> None:
    policed.rules = False
    assert policed.ask(ASKED, times=3) == 3


def test_another_label_and_another_pod_of_that_name_are_asked_for(policed: Policed) -> None:
    policed.ask(ASKED)
    assert policed.ask(LabelPod("team", "p", "u1", ((labels.ROUTED, "true"),), 0.0)) == 2
    assert policed.ask(LabelPod("team", "p", "u2", tuple(TAGS.items()), 0.0)) == 3


def test_a_pod_is_taken_out_of_its_front_at_each_try(policed: Policed) -> None:
    """It is not deleted before."""
    assert policed.ask(UnroutePod("team", "p", "u1", 0.0), times=3) == 3


def test_after_an_hour_it_is_asked_for_once_more() -> None:
    now = [0.0]
    labelling = Labelling(lambda: now[0])
    labelling.note("/p", TAGS, {"metadata": {"uid": "u1", "labels": {}}})
    assert labelling.is_in_vain("/p", "u1", TAGS)
    now[0] = ASKED_AGAIN_SECONDS
    assert not labelling.is_in_vain("/p", "u1", TAGS)


def test_once_it_is_so_nothing_is_in_vain_any_more() -> None:
    labelling = Labelling()
    labelling.note("/p", TAGS, {"metadata": {"uid": "u1", "labels": {}}})
    labelling.note("/p", TAGS, {"metadata": {"uid": "u1", "labels": TAGS}})
    assert not labelling.is_in_vain("/p", "u1", TAGS)
