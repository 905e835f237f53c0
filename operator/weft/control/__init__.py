"""The running operator: its two loops, kopf's registration, probes and metrics.

`operator`: all parts, started and stopped. `options`: what people choose. `connection`: to the API server. `context`:
    what the parts share. `leading`: which of several operators decides and writes.

`watches` and `collecting` bring in what happens, `wake` tells `deciding` and `converging` of it, which write by
    `statuses`. `health` serves the probes and `metrics`, `logs` formats the log and `told_once` keeps it short.
"""

from __future__ import annotations

from weft.control.operator import Operator, run
from weft.control.options import RunOptions

__all__ = ["Operator", "RunOptions", "run"]
