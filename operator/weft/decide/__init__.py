"""The one entry to the core: a snapshot in, the next status of every resource out."""

from __future__ import annotations

from weft.decide.compose import decide
from weft.decide.persisting import Persisted, in_safe_order

__all__ = ["Persisted", "decide", "in_safe_order"]
