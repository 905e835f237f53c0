"""What pods hold, summed up from pass to pass by what changed, is what a sum over all of them is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.fabric.use import use_of

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU = "nvidia.com/gpu"
NODES = ("a", "b", "c")


def pod(owner: str | None, node: str | None, gpus: int, phase: PodPhase = PodPhase.Running) -> PodRecord:
    """One pod of a pool, or of somebody else."""
    identity = PodIdentity(owner, 0, 0, "r1") if owner else None
    name = f"{owner}-{node}-{gpus}-{phase}"
    return PodRecord("team", name, name, phase, node, ((GPU, gpus),), identity=identity, ready=gpus % 2 == 0)


PODS = st.builds(
    pod,
    st.sampled_from(["chat", "code", None]),
    st.sampled_from([*NODES, None]),
    st.integers(0, 4),
    st.sampled_from([PodPhase.Running, PodPhase.Failed]),
)


@given(st.lists(st.lists(PODS, max_size=6), min_size=1, max_size=5))
def test_every_pass_has_the_sum_over_all_pods(passes: list[list[PodRecord]]) -> None:
    """Whatever pods were there before: who comes, goes, ends or is another leaves nothing behind."""
    for pods in passes:
        found = use_of(tuple(pods))
        assert _held(pods) == {node: dict(there) for node, there in found.held.items()}
        assert {each.node for each in pods if each.holds_devices and each.ready} == found.serving


@given(st.lists(PODS, max_size=6), st.lists(PODS, max_size=6))
def test_nodes_that_are_used_otherwise_are_named(before: list[PodRecord], after: list[PodRecord]) -> None:
    """And no others."""
    one, other = use_of(tuple(before)), use_of(tuple(after))
    expected = {
        node
        for node in NODES
        if one.held.get(node) != other.held.get(node) or (node in one.serving) != (node in other.serving)
    }
    assert expected == other.changes_since(one)


def _held(pods: Sequence[PodRecord]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for each in pods:
        if each.holds_devices and each.node is not None:
            there = found.setdefault(each.node, Counter())
            there.update(dict(each.requests))
    return {node: dict(there) for node, there in found.items()}
