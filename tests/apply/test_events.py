"""Events tell every change once, and never flood."""

from __future__ import annotations

from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.protocol.scripted_server import ScriptedServer
from weft.apply import EventRecorder, Reporter, Sender, TokenBucket
from weft.apply.events import MOST_IN_THAT_TIME, event_body
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import ResourceKey

KEY = ResourceKey("InferencePool", "team", "chat", "u1")


def told(*messages: str) -> int:
    """How many events are created of so many tries to tell of scaling up."""
    counted: list[str] = []
    with ScriptedServer() as server:
        server.answer = lambda _: web.Response(status=201, text="{}")
        sender = Sender(ApiClient(Configuration(host=server.url)), TokenBucket())
        recorder = EventRecorder(sender, Reporter("weft-0"), (), lambda kind, _: counted.append(kind))
        for message in messages:
            recorder.record(KEY, Explanation(Reason.ScaleUp, message))
    return len(counted)


def test_two_steps_within_a_minute_are_both_told() -> None:
    assert told("1 -> 2 replicas", "2 -> 3 replicas") == 2


def test_the_same_is_told_once() -> None:
    assert told(*["1 -> 2 replicas"] * 5) == 1


def test_a_message_that_never_repeats_itself_is_no_flood() -> None:
    assert told(*[f"{count} -> {count + 1} replicas" for count in range(40)]) == MOST_IN_THAT_TIME


def kind_of(explanation: Explanation, *, warns: bool = False) -> str:
    return str(event_body(KEY, explanation, Reporter("weft-0"), warns=warns)["type"])


def test_what_somebody_should_look_at_is_a_warning() -> None:
    """By its reason, or where it is told: no room is one for a pool that waits for it."""
    assert "Warning" == kind_of(Explanation(Reason.BestEffort, "no shape meets the SLO"))
    assert "Warning" == kind_of(Explanation(Reason.NodeGone, "node b-0 is gone, and replica 0 there answers"))
    assert ["Normal", "Warning"] == [
        kind_of(Explanation(Reason.NoSlot, "none"), warns=warns) for warns in (False, True)
    ]


def test_a_long_story_is_cut_where_the_api_server_would_refuse_it_whole() -> None:
    body = event_body(KEY, Explanation(Reason.EngineFailed, "x" * 2000), Reporter("y" * 200), warns=False)
    assert (1024, 128) == (len(body["note"]), len(body["reportingInstance"]))


def test_what_others_say_in_their_own_script_is_cut_by_bytes_as_the_api_server_counts() -> None:
    """A character may have up to four bytes, and none is cut in two."""
    body = event_body(KEY, Explanation(Reason.EngineFailed, "x" + "é" * 1000), Reporter("weft-0"), warns=False)
    assert body["note"] == "x" + "é" * 511
