"""What an API server says of fields that its definition of a kind lacks, and which of them may be left out."""

from __future__ import annotations

import pytest

from weft.apply import ServerError, Undeclared
from weft.apply.undeclared import as_undeclared

ONE = "failed to create typed patch object (team/chat; weft.dev/v1alpha1, Kind=InferencePool): "
SEVERAL = f"{ONE}errors:\n  .status.startUp: field not declared in schema\n  "


@pytest.mark.parametrize(
    ("said", "paths"),
    [
        (f"{ONE}.status.startUp: field not declared in schema", {("startUp",)}),
        (f"{ONE}.status.observed.transfer: field not declared in schema", {("observed", "transfer")}),
        (f"{ONE}.status.calibration[0].ttftTail: field not declared in schema", {("calibration",)}),
        (
            f"{SEVERAL}.status.observed.live: field not declared in schema",
            {("startUp",), ("observed", "live")},
        ),
    ],
)
def test_what_may_be_left_out_is_named(said: str, paths: set[tuple[str, ...]]) -> None:
    found = as_undeclared(ServerError(said))
    assert isinstance(found, Undeclared)
    assert found.paths == paths
    assert str(found) == said


@pytest.mark.parametrize(
    "said",
    [
        "etcdserver: request is too large",
        f"{ONE}.status.nextReplica: field not declared in schema",
        f"{ONE}.status.assignments[replica=0].computeDomain: field not declared in schema",
        f"{ONE}.status.plan.prefillContextParallel: field not declared in schema",
        f"{ONE}.status.failure.node: field not declared in schema",
        f"{ONE}.status.moves[replica=0].until: field not declared in schema",
        f"{ONE}.status.generation: field not declared in schema",
        f'{ONE}.status.conditions[type="Ready"].more: field not declared in schema',
        f"{ONE}.spec.role: field not declared in schema",
        f"{SEVERAL}.status.assignments[replica=0].handover: field not declared in schema",
        f"{SEVERAL}.spec.role: field not declared in schema",
    ],
)
def test_what_is_acted_upon_is_never_left_out(said: str) -> None:
    """Replicas without their ComputeDomain, or of half a shape, would be read back as others were decided."""
    error = ServerError(said)
    assert as_undeclared(error) is error
