"""A shape on cards without NVLink is planned and simulated with collectives through PCIe."""

from __future__ import annotations

import pytest

from tests.shaping.cases import CATALOG, LLAMA_70B, Wish
from weft.domain.spec import ShapePins
from weft.domain.texts.units import MIB
from weft.perf.steps import stepper
from weft.shaping import Supply
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase
from weft.twin.engine.modelled import engine_speed

L40S = Supply("L40S", 46068 * MIB, domain_gpus=8, gpus_per_node=8)  # the node is what a group stays in
WISH = Wish(LLAMA_70B, (L40S,), rate=0.2, pins=ShapePins(tensor_parallel=8))


def test_a_plan_over_pcie_has_the_latency_of_nccl() -> None:
    plan = WISH.plan()
    option = Option(plan.shape, L40S, CATALOG.accelerator("L40S"))
    replica = ShapeCase(option, WISH.request(), CATALOG).replica
    step = stepper(replica).decode(1.0, 1000.0)
    assert step.parts.reduces / step.work.reduces == pytest.approx(21e-6, rel=0.2)
    simulated = engine_speed(plan, WISH.request().spec, CATALOG).steps
    assert simulated.batch(1).at(1000.0) == pytest.approx(step.seconds, rel=0.02)
