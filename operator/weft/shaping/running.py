"""The running replica, as the performance model sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.calibration import NOTHING_KNOWN
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.shape import Shape
    from weft.perf import ErrorBar, ReplicaModel
    from weft.shaping.request import ShapeRequest


def running_replica(request: ShapeRequest, shape: Shape, catalog: Catalog) -> tuple[ReplicaModel, ErrorBar] | None:
    """One replica of a shape, uncalibrated, and its error bar; None where its devices are gone.

    Raises `Invalid` for a precision that the catalog no longer has.
    """
    supplies = (supply for supply in request.supplies if supply.accelerator == shape.accelerator)
    supply = min(supplies, key=lambda each: (each.memory_bytes, each.domain_gpus), default=None)
    if supply is None:
        return None
    case = ShapeCase(Option(shape, supply, catalog.accelerator(shape.accelerator)), request, catalog)
    return replace(case.replica, calibration=NOTHING_KNOWN), case.error_bar
