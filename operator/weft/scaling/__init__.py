"""Observations -> replicas per pool: demand over capacity, bounded, stabilised, and never shrunk on missing metrics.

The count. `pool`: sizes one pool on its own. `split`: sizes both halves together, within `ratio`. `sight`: what a pool
    sees in a pass. `reading`: which metrics can be trusted. `looks`: the samples of the last minute. `staying`: how
    long requests stay. `demand`: how many replicas that takes. `settle`: from there to the desired count, within
    `bounds`.
The forecast. `forecast`: a distribution of the rate once a start is over. `forecast_learning`: what each bin of traffic
    teaches it. `seasons`: the daily pattern. `cycles`: what comes back every few minutes, by the `course` of the
    last hours. `scatter`: how far forecasts were off. `risk`: how large a margin to buy. `starts`: how long a start
    takes. `past`: what weeks of recorded rates teach. `keeping`: when it is written into a status, and `packing` as
    which text.
The factors. `calibration`: learnt from replicas. `tails`: of latencies. `taking_over`: when decisions start using them.
Traffic. `live`: measured in place of declared. `lengths_seen`: prompt and answer lengths. `attainment`: the share of
    requests within the SLO.
Underperforming replicas. `outliers`: which, and when one may be replaced. `slowness`: slower than their siblings.
    `cut_off`: unable to exchange KV with the other half.
"""

from __future__ import annotations

from weft.scaling.attainment import is_resolved
from weft.scaling.keeping import is_carried_along, is_worth_a_write, kept_now, restored
from weft.scaling.lengths_seen import remembered
from weft.scaling.live import live_figures, live_workload, replaced_values
from weft.scaling.pool import scale_pool
from weft.scaling.ratio import RatioGuard
from weft.scaling.reading import backlog, is_backlog, is_sane, kv_in_use, read_percentile
from weft.scaling.risk import without_costs
from weft.scaling.settle import ScaleAnswer
from weft.scaling.sight import Ceiling, ScaleRequest
from weft.scaling.split import scale_split

__all__ = [
    "Ceiling",
    "RatioGuard",
    "ScaleAnswer",
    "ScaleRequest",
    "backlog",
    "is_backlog",
    "is_carried_along",
    "is_resolved",
    "is_sane",
    "is_worth_a_write",
    "kept_now",
    "kv_in_use",
    "live_figures",
    "live_workload",
    "read_percentile",
    "remembered",
    "replaced_values",
    "restored",
    "scale_pool",
    "scale_split",
    "without_costs",
]
