"""Desired and observed replicas -> ordered actions. Pure: what is wanted is in status, what is there was observed."""

from __future__ import annotations

from weft.converge.answer import Convergence
from weft.converge.draining import Heard
from weft.converge.pool import converge_pool
from weft.converge.split import converge_split

__all__ = ["Convergence", "Heard", "converge_pool", "converge_split"]
