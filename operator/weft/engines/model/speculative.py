"""The settings of speculative decoding in a pool."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.engines.terms.launch import LaunchRequest

_DRAFTED_TOKENS = 3  # unless the spec says


@dataclass(frozen=True, slots=True)
class SpeculativeWish:
    """`method` is MTP, EAGLE3, DraftModel or NGram; `model` is the draft model, if it is a separate one."""

    method: str
    tokens: int
    model: str | None = None


def speculative_wish(wish_json: str | None) -> SpeculativeWish | None:
    """Parse `spec.engine.speculative`, kept as JSON; None if there is no speculative decoding."""
    if wish_json is None:
        return None
    wish = json.loads(wish_json)
    return SpeculativeWish(wish["method"], wish.get("tokens", _DRAFTED_TOKENS), wish.get("model") or None)


def refuse_drafting(request: LaunchRequest) -> None:
    """Raise `Invalid` (FeatureUnsupported) for a method that the release does not support."""
    wish, release = speculative_wish(request.spec.engine.speculative_json), request.plan.engine
    able = load().engine(release.name).limits.drafting_by(wish.method) if wish is not None else None
    if wish is not None and able is not None and not able.include(release.version):
        named = f"spec.engine.speculative {wish.method} is not supported on {release.name.value} {release.version}"
        raise Invalid(Reason.FeatureUnsupported, f"{named}: use version {able}, or another method")
