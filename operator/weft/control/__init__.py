"""The running operator: its two loops, kopf's registration, probes and metrics."""

from __future__ import annotations

from weft.control.operator import Operator, run
from weft.control.options import RunOptions

__all__ = ["Operator", "RunOptions", "run"]
