"""The one entry to the core: a snapshot in, the next status of every resource out."""

from __future__ import annotations

from weft.decide.compose import decide
from weft.decide.persisting import Persisted, in_safe_order
from weft.decide.settling import as_decided
from weft.decide.suspects import whose

__all__ = ["Persisted", "as_decided", "decide", "in_safe_order", "whose"]
