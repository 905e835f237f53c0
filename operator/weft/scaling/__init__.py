"""Observations -> replicas per pool: demand over capacity, bounded, stabilised, and never shrunk on missing metrics."""

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
