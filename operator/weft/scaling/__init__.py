"""Observations -> replicas per pool: demand over capacity, bounded, stabilised, and never shrunk on missing metrics.

The count. `pool`: sizes one pool on its own. `split`: sizes both halves together, within `ratio` and in `balance`.
    `settle`: from wanted to desired replicas, within `bounds`. `shrinking`: what keeps a pool from having fewer.
    `demand`: how many replicas are wanted. `saturation`: what they serve at most. `sight`: what a pool sees in a pass.
    `staying`: how long requests stay.
Packages that it builds on, whose heads say which module has which; only the second knows another, the last:
    `forecasting`: the load to come. `calibrating`: how far replicas are from their prediction. `traffic`: measured in
    place of declared. `underperforming`: which replicas do worse than their siblings.
What all of them read. `reading`: which metrics can be trusted. `looks`: the samples of the last minute.
"""

from __future__ import annotations

from weft.scaling.calibrating.proving import holds, targets_in_words
from weft.scaling.forecasting.keeping import is_carried_along, is_worth_a_write, kept_now, restored
from weft.scaling.forecasting.risk import without_costs
from weft.scaling.pool import scale_pool
from weft.scaling.ratio import RatioGuard
from weft.scaling.reading import backlog, is_backlog, is_sane, kv_in_use, read_percentile
from weft.scaling.settle import ScaleAnswer
from weft.scaling.sight import Ceiling, ScaleRequest
from weft.scaling.split import scale_split
from weft.scaling.traffic.attainment import is_resolved
from weft.scaling.traffic.lengths_seen import lengths_after
from weft.scaling.traffic.live import live_figures, live_workload, replaced_values

__all__ = [
    "Ceiling",
    "RatioGuard",
    "ScaleAnswer",
    "ScaleRequest",
    "backlog",
    "holds",
    "is_backlog",
    "is_carried_along",
    "is_resolved",
    "is_sane",
    "is_worth_a_write",
    "kept_now",
    "kv_in_use",
    "lengths_after",
    "live_figures",
    "live_workload",
    "read_percentile",
    "replaced_values",
    "restored",
    "scale_pool",
    "scale_split",
    "targets_in_words",
    "without_costs",
]
