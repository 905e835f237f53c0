"""Routers that heed no label are asked to forget an engine, as sglang-router 0.3.2 was seen to answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.protocol.scripted_server import ScriptedServer
from weft.apply.routers import (
    ASKED_AGAIN_SECONDS,
    LARGEST_ANSWER_BYTES,
    PATIENCE_SECONDS,
    RESTS_SECONDS,
    RouterKeepsOneWorker,
    RouterKeepsWorker,
    Routers,
)
from weft.apply.writer import Writer
from weft.domain.action import ForgetWorker
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.protocol.scripted_server import Received

WORKER, OTHER = "10.0.0.7:30000", "10.0.0.8:30000"
NOBODY = "127.0.0.1:9"  # the discard port, at which nobody listens


class Router:
    """A router with its workers, which removes one only after it was asked for `late` lists more, and `kept` never."""

    def __init__(self, server: ScriptedServer, *workers: str, late: int = 0) -> None:
        self.server, self.late = server, late
        self.address = server.url.removeprefix("http://")
        self.workers = {f"id-{number}": f"http://{worker}" for number, worker in enumerate(workers)}
        self.going: list[str] = []
        self.kept: set[str] = set()
        server.answer = self._answer

    def _answer(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            found = request.path.rpartition("/")[2]
            if found not in self.workers:
                return web.json_response({"code": "WORKER_NOT_FOUND"}, status=404)
            self.going += [found] if found not in self.kept else []
            return web.json_response({"status": "accepted"}, status=202)
        if self.going and self.late <= 0:
            self.workers.pop(self.going.pop(), None)
        self.late -= bool(self.going)
        listed = [{"id": name, "url": url, "is_healthy": True} for name, url in self.workers.items()]
        return web.json_response({"workers": listed, "total": len(listed)})

    def deleted(self) -> list[str]:
        """Paths of the removals that were asked for."""
        return [seen.path for seen in self._seen("DELETE")]

    def looks(self) -> int:
        return len(self._seen("GET"))

    def _seen(self, method: str) -> list[Received]:
        return [seen for seen in self.server.requests if seen.method == method]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def routers(clock: Clock) -> Routers:
    return Routers(clock)


@pytest.fixture
def router() -> Iterator[Router]:
    with ScriptedServer() as server:
        yield Router(server, OTHER, WORKER)


@pytest.fixture
def second() -> Iterator[Router]:
    with ScriptedServer() as server:
        yield Router(server, WORKER, OTHER)


def about(*routers: str) -> ForgetWorker:
    return ForgetWorker("team", "chat-3-0", "u3", WORKER, tuple((f"uid-of-{at}", at) for at in routers))


def test_every_router_forgets_the_worker_and_no_other(routers: Routers, router: Router, second: Router) -> None:
    routers.forget(about(router.address, second.address))
    assert (router.deleted(), second.deleted()) == (["/workers/id-1"], ["/workers/id-0"])
    assert [*router.workers.values(), *second.workers.values()] == [f"http://{OTHER}"] * 2


def test_a_removal_that_is_carried_out_later_is_waited_for(routers: Routers, router: Router) -> None:
    """The router answers 202 and removes the worker in a job of its own."""
    router.late = 2
    routers.forget(about(router.address))
    assert (len(router.deleted()), list(router.workers.values())) == (1, [f"http://{OTHER}"])


def test_ranks_of_one_engine_go_together(routers: Routers, router: Router) -> None:
    router.workers = {"a": f"http://{WORKER}@0", "b": f"http://{WORKER}@1", "c": f"http://{OTHER}@1"}
    routers.forget(about(router.address))
    assert router.deleted() == ["/workers/a", "/workers/b"]
    assert [*router.workers] == ["c"]


def test_a_worker_that_stays_is_told_of(routers: Routers, router: Router) -> None:
    router.late = 100
    with pytest.raises(RouterKeepsWorker, match="it is still in its list"):
        routers.forget(about(router.address))


def test_an_operator_that_starts_anew_asks_again_and_changes_nothing(routers: Routers, router: Router) -> None:
    routers.forget(about(router.address))
    Routers(Clock()).forget(about(router.address))
    assert router.deleted() == ["/workers/id-1"]
    assert router.looks() == 3


def test_who_forgot_is_asked_again_after_a_minute_as_it_may_have_started_anew(
    routers: Routers, router: Router, clock: Clock
) -> None:
    """A list of a thousand workers is not read in each pass."""
    routers.forget(about(router.address))
    looks, router.workers = router.looks(), {"new": f"http://{WORKER}"}
    routers.forget(about(router.address))
    assert (looks, router.workers) == (router.looks(), {"new": f"http://{WORKER}"})
    clock.now += ASKED_AGAIN_SECONDS
    routers.forget(about(router.address))
    assert router.workers == {}


def test_one_of_two_routers_is_away(routers: Routers, router: Router, clock: Clock) -> None:
    """The other forgets at once. The engine is kept for a while; then the deletion of its pod has to do."""
    asked = about(NOBODY, router.address)
    with pytest.raises(RouterKeepsWorker, match=rf"router {NOBODY} keeps engine {WORKER} of pod chat-3-0") as kept:
        routers.forget(asked)
    assert kept.value.reason is Reason.Draining
    assert list(router.workers.values()) == [f"http://{OTHER}"]
    clock.now += PATIENCE_SECONDS - 1
    with pytest.raises(RouterKeepsWorker):
        routers.forget(asked)
    clock.now += 1
    routers.forget(asked)


def leaving(number: int, *routers: str) -> ForgetWorker:
    return replace(about(*routers), name=f"chat-{number}-0", uid=f"u{number}", worker=f"10.0.0.{number}:30000")


def test_a_silent_router_is_waited_for_once_and_not_for_each_that_leaves(routers: Routers, clock: Clock) -> None:
    """A hundred replicas would be deleted one by one, each after as long a wait."""
    with pytest.raises(RouterKeepsWorker):
        routers.forget(leaving(1, NOBODY))
    clock.now += PATIENCE_SECONDS
    for number in range(1, 101):
        routers.forget(leaving(number, NOBODY))


def test_an_engine_that_a_router_keeps_is_no_silence_about_others(
    routers: Routers, router: Router, clock: Clock
) -> None:
    router.workers = {f"id-{number}": f"http://10.0.0.{number}:30000" for number in (1, 2, 3)}
    router.kept = {"id-1"}
    with pytest.raises(RouterKeepsOneWorker):
        routers.forget(leaving(1, router.address))
    routers.forget(leaving(2, router.address))
    clock.now += PATIENCE_SECONDS
    routers.forget(leaving(1, router.address))
    routers.forget(leaving(3, router.address))
    assert [*router.workers] == ["id-1"]
    looks = router.looks()
    routers.forget(leaving(1, router.address))
    assert router.looks() == looks


def test_a_router_that_keeps_several_is_waited_for_once(routers: Routers, router: Router, clock: Clock) -> None:
    """It forgets nobody, as far as is known, and a hundred replicas may be about to leave."""
    router.workers = {f"id-{number}": f"http://10.0.0.{number}:30000" for number in (1, 2, 3)}
    router.kept = {*router.workers}
    for number, told in ((1, RouterKeepsOneWorker), (2, RouterKeepsWorker)):
        with pytest.raises(RouterKeepsWorker) as kept:
            routers.forget(leaving(number, router.address))
        assert kept.type is told
    clock.now += PATIENCE_SECONDS
    routers.forget(leaving(1, router.address))
    looks = router.looks()
    for number in (2, 3):
        routers.forget(leaving(number, router.address))
    assert router.looks() == looks


def test_of_two_routers_the_silent_one_is_told_of(routers: Routers, router: Router) -> None:
    """Whoever asks about others would wait for its answer, too."""
    router.kept = {"id-1"}
    with pytest.raises(RouterKeepsWorker, match=NOBODY) as kept:
        routers.forget(about(router.address, NOBODY))
    assert kept.type is RouterKeepsWorker


def test_a_router_that_was_given_up_is_asked_again_and_waited_for_anew(
    routers: Routers, router: Router, clock: Clock
) -> None:
    """Once it does as asked, or if nobody asked it for long: then its silence is over, as far as anybody knows."""
    answer, router.server.answer = router.server.answer, page("", 500)
    with pytest.raises(RouterKeepsWorker):
        routers.forget(about(router.address))
    clock.now += PATIENCE_SECONDS
    routers.forget(about(router.address))
    asked, router.server.answer = router.looks(), answer
    routers.forget(about(router.address))
    assert router.looks() == asked
    clock.now += RESTS_SECONDS
    routers.forget(about(router.address))
    assert list(router.workers.values()) == [f"http://{OTHER}"]
    router.server.answer = page("", 500)
    with pytest.raises(RouterKeepsWorker):
        routers.forget(leaving(4, router.address))
    clock.now += PATIENCE_SECONDS + ASKED_AGAIN_SECONDS
    with pytest.raises(RouterKeepsWorker):
        routers.forget(leaving(4, router.address))


def test_a_router_that_is_given_up_is_one_line_of_the_log(
    routers: Routers, router: Router, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Engines that leave may take minutes to end, and it is asked about them all that time."""
    router.server.answer = page("", 500)
    with pytest.raises(RouterKeepsWorker):
        routers.forget(about(router.address))
    for _ in range(5):
        clock.now += PATIENCE_SECONDS + RESTS_SECONDS
        routers.forget(about(router.address))
    assert len(caplog.records) == 1


def page(text: str, status: int = 200) -> Callable[[web.Request], web.Response]:
    return lambda _: web.Response(text=text, status=status)


BAD: dict[str, Callable[[web.Request], web.Response]] = {
    "fails": page("", 500),
    "starts": page("", 503),
    "has no such path": page("not found", 404),
    "redirects": lambda _: web.Response(status=302, headers={"Location": "http://127.0.0.1:9/workers"}),
    "is a login page": page("<html>"),
    "lists nothing": page("{}"),
    "is a list": page("[]"),
    "lists words": page('{"workers": ["w"]}'),
    "lists workers without id": page(f'{{"workers": [{{"url": "http://{WORKER}"}}]}}'),
    "lists workers without url": page('{"workers": [{"id": "w"}]}'),
    "does not end": page(" " * (LARGEST_ANSWER_BYTES + 1) + "{}"),
    "is nested without end": page("[" * 200_000),
    "is no text": lambda _: web.Response(body=b"\xff\xfe{"),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_a_bad_answer_is_no_word_that_it_forgot(
    routers: Routers, router: Router, clock: Clock, answer: Callable[[web.Request], web.Response]
) -> None:
    router.server.answer = answer
    with pytest.raises(RouterKeepsWorker):
        routers.forget(about(router.address))
    clock.now += PATIENCE_SECONDS
    routers.forget(about(router.address))


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_refused_removal_is_no_word_either(routers: Routers, router: Router, status: int) -> None:
    listed = {"workers": [{"id": "w", "url": f"http://{WORKER}"}]}
    router.server.answer = lambda asked: web.json_response(listed, status=200 if asked.method == "GET" else status)
    with pytest.raises(RouterKeepsWorker, match=f"HTTP {status} to its removal"):
        routers.forget(about(router.address))


def test_a_worker_that_went_meanwhile_is_forgotten(routers: Routers, router: Router) -> None:
    """The router saw the deletion of its pod between both questions."""
    lists: list[Any] = [{"workers": [{"id": "w", "url": f"http://{WORKER}"}]}, {"workers": []}]

    def answer(asked: web.Request) -> web.Response:
        return web.json_response(lists.pop(0)) if asked.method == "GET" else web.json_response({}, status=404)

    router.server.answer = answer
    routers.forget(about(router.address))
    assert lists == []


def test_nothing_is_asked_outside_of_the_served_namespaces(router: Router) -> None:
    writer = Writer(None, ["elsewhere"], lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(Blocked, match="team is not a served namespace"):
        writer.carry_out(about(router.address))
    assert router.server.requests == []
