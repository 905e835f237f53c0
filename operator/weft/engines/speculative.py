"""Speculative decoding as a pool asks for it."""

from __future__ import annotations

import json
from dataclasses import dataclass

_DRAFTED_TOKENS = 3  # where the wish does not say


@dataclass(frozen=True, slots=True)
class SpeculativeWish:
    """`method` is MTP, EAGLE3, DraftModel or NGram; `model` drafts where it is not the model itself."""

    method: str
    tokens: int
    model: str | None = None


def speculative_wish(wish_json: str | None) -> SpeculativeWish | None:
    """`spec.engine.speculative`, kept as JSON; None where tokens are not drafted."""
    if wish_json is None:
        return None
    wish = json.loads(wish_json)
    return SpeculativeWish(wish["method"], wish.get("tokens", _DRAFTED_TOKENS), wish.get("model") or None)
