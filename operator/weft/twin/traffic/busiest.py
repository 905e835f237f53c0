"""The traffic of the busiest minute of a trace, as a user would declare it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from weft.domain.workload import Workload
    from weft.twin.traffic.trace import Trace

_MINUTE_SECONDS = 60.0
_SHORTEST_SECONDS = 1.0


def at_its_busiest(declared: Workload, trace: Trace) -> Workload:
    """Return declared traffic with the rate of the busiest minute and the lengths of all requests of a trace.

    A trace of less than a minute has the rate of the whole. The trace has at least one request.
    """
    span = min(_MINUTE_SECONDS, max(_SHORTEST_SECONDS, trace.seconds))
    ends = np.searchsorted(trace.arrivals, trace.arrivals + span, side="right")
    inputs, outputs = trace.inputs, trace.outputs
    return replace(
        declared,
        requests_per_second=float((ends - np.arange(len(trace))).max()) / span,
        input_tokens=float(inputs.mean()),
        output_tokens=float(outputs.mean()),
        input_tokens_p95=float(np.percentile(inputs, 95)),
        output_tokens_p95=float(np.percentile(outputs, 95)),
        input_p95_declared=True,
        output_p95_declared=True,
    )
