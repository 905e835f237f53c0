"""Labels are anybody's to edit: one that tells another rank makes no promised GPU free (S2)."""

from __future__ import annotations

import pytest

from weft.decide.replicas.health import AssignedReplica
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.status import Assignment


@pytest.mark.parametrize("rank", [0, 1, 7, -1], ids=["as rendered", "of the other pod", "none of it", "below all"])
def test_a_pod_is_at_its_node_whatever_its_label_says(rank: int) -> None:
    """The other pod still waits for its node, which stays promised."""
    asked = (("nvidia.com/gpu", 8),)
    edited, own = (PodIdentity("uid-pool", 3, each, "r") for each in (rank, 1))
    bound = PodRecord("team", "p-0", "uid-0", PodPhase.Running, "node-a", asked, identity=edited)
    waiting = PodRecord("team", "p-1", "uid-1", PodPhase.Pending, None, asked, identity=own)
    replica = AssignedReplica(Assignment(3, "r", ("node-a", "node-b"), 8, since=0.0), (bound, waiting))

    assert (frozenset({0}), ("node-b",)) == (replica.bound, replica.unbound_nodes)
