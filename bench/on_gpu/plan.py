"""What engines are started with and asked, on a machine with a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN = Path(__file__).with_name("plan.yaml")
_RECEIVED_KIB = 64  # UCX's default


def wires(part: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What UCX is told; a receiver takes no larger pieces than it is told of, and both halves send."""
    received = max(part["pieces_kib"], _RECEIVED_KIB)
    pieces = (("UCX_TCP_TX_SEG_SIZE", f"{part['pieces_kib']}k"), ("UCX_TCP_RX_SEG_SIZE", f"{received}k"))
    return (("UCX_TLS", part["wires"]), *pieces)
