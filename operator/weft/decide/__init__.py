"""The one entry to the core: a snapshot in, the next status of every resource out."""

from __future__ import annotations

from weft.decide.compose import decide

__all__ = ["decide"]
