"""The demo's world and its four minutes: nodes, traffic, one fault. Times are seconds since traffic starts."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.presets import SimulatedNode, h200_boards, nvl72_rack
from weft.twin.live.fleet import LiveStream
from weft.twin.traffic.open_loop import LogNormalLengths, Profile

POOLS_FILE = Path(__file__).with_name("pools.yaml")
NAMESPACE = "demo"

RUN_SECONDS = 240.0
TRAY_FAILS_AT = 80.0
TRAY_RETURNS_AT = 185.0

BOARDS = 8
TRAYS = 18
FABRIC_WORDS = f"{BOARDS} boards of 8 H200 and one NVL72 rack of {TRAYS} trays with 4 GB200"


def nodes() -> list[SimulatedNode]:
    """The fabric of those words."""
    return [*h200_boards(BOARDS), *nvl72_rack("rack-a", trays=TRAYS)]


def _hill(low: float, high: float, start: float) -> Profile:
    """A rate that rises fourfold in a minute and a half, as a morning does in hours, stays, and falls."""
    return Profile(((start, low), (start + 90.0, high), (start + 125.0, high), (start + 165.0, low)))


STREAMS = (
    LiveStream("chat", "chat", _hill(20.0, 80.0, 10.0), LogNormalLengths(1200), LogNormalLengths(250)),
    LiveStream("assistant", "assistant", _hill(3.5, 14.0, 20.0), LogNormalLengths(2000), LogNormalLengths(300)),
    LiveStream(
        "reasoner",
        "reasoner-prefill",
        _hill(8.0, 32.0, 15.0),
        LogNormalLengths(4000),
        LogNormalLengths(400),
        decode_pool="reasoner-decode",
    ),
)
