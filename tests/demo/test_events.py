"""What the demo tells of the events in its namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from e2e.demo.sampling import new_events
from tests.demo.looks import look


def event(uid: str, kind: str, name: str, note: str) -> dict[str, Any]:
    regarding = {"kind": kind, "name": name}
    return {"metadata": {"uid": uid}, "regarding": regarding, "reason": "NoSlot", "note": note, "eventTime": uid}


def test_what_a_split_repeats_of_its_half_is_told_once() -> None:
    world = replace(
        look(),
        events=(
            event("1", "InferencePool", "reasoner-prefill", "no room"),
            event("2", "PDSplit", "reasoner", "Prefill pool: no room"),
            event("3", "PDSplit", "reasoner", "Decode pool: no room"),
            event("4", "InferencePool", "chat", "no room"),
            event("5", "Pod", "chat-0", "no room"),
        ),
    )
    seen: set[str] = set()
    told = [(each["what"], each["message"]) for each in new_events(7.0, world, seen)]
    assert [("reasoner", "prefill: no room"), ("reasoner", "decode: no room"), ("chat", "no room")] == told
    assert [] == new_events(8.0, world, seen)
