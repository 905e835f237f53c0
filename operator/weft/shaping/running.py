"""A replica of a given shape, as the performance model sees it: planned, running or simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.calibration import NOTHING_KNOWN
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.shape import Shape
    from weft.perf import ErrorBar, ReplicaModel
    from weft.shaping.request import ShapeRequest


def case_of(request: ShapeRequest, shape: Shape, catalog: Catalog) -> ShapeCase:
    """A shape on the devices that a request has of its accelerator; raises `Blocked` (NoAccelerator) without any.

    All supplies of an accelerator have the same kind of devices, and only the first has its largest nodes.
    """
    accelerator = catalog.accelerator(shape.accelerator)
    supply = next((each for each in request.supplies if each.accelerator == accelerator.name), None)
    if supply is None:
        raise Blocked(Reason.NoAccelerator, f"there is no {accelerator.name}")
    return ShapeCase(Option(shape, supply, accelerator), request, catalog)


def modelled(request: ShapeRequest, shape: Shape, catalog: Catalog) -> ReplicaModel:
    """The performance model's input for a shape of a request; raises as `case_of` does.

    Raises `Invalid` (PrecisionUnsupported) for a precision that the catalog no longer has.
    """
    return case_of(request, shape, catalog).replica


def running_replica(request: ShapeRequest, shape: Shape, catalog: Catalog) -> tuple[ReplicaModel, ErrorBar]:
    """One replica of a shape, uncalibrated, and its error bar; raises as `modelled` does."""
    case = case_of(request, shape, catalog)
    return replace(case.replica, calibration=NOTHING_KNOWN), case.error_bar
