"""No node is in two ComputeDomains, over any history: edits, failures, deletions and domains of others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.histories import (
    DOMAINS,
    NAMES,
    NODES,
    ROLLOUTS,
    SINGLE,
    act,
    fresh,
    histories,
    mixtures,
    scalings,
    world_of,
)
from tests.decide.world import pool_spec

if TYPE_CHECKING:
    from tests.decide.histories import Action
    from weft.domain.spec import PoolSpec

BOARDS = {"b-0", "b-1", "b-2"}
on_racks = st.one_of(
    mixtures("GB200", (4, 2), (2, 8), (1, 8)),
    st.builds(
        pool_spec, tp=st.just(8), scaling=scalings, accelerator=st.just("GB200"), rollout=st.sampled_from(ROLLOUTS)
    ),
)
contention = st.lists(
    st.one_of(
        st.tuples(st.just("domain"), st.sampled_from([node.name for node in NODES[:8]]), st.booleans()),
        st.tuples(st.just("restart"), st.sampled_from(SINGLE), st.integers(0, 3)),
        st.tuples(st.just("undo"), st.integers(0, 5), st.none()),
        st.tuples(st.just("fail"), st.integers(0, 20), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 4), st.just(5.0)),
    ),
    max_size=10,
)


@settings(max_examples=40, deadline=None)
@given(first=st.lists(on_racks, min_size=5, max_size=5), history=st.one_of(contention, histories))
def test_no_node_is_promised_to_two_compute_domains(first: list[PoolSpec], history: list[Action]) -> None:
    """Nor to one beside somebody else's; what a pool's own leaving replica has may be promised to that pool again."""
    world = world_of(first)
    world.driver = True
    for action in (("wait", 2, 5.0), *history, ("wait", 2, 5.0)):
        act(world, action)
        before = {(name, each.replica) for name in NAMES for each in world.status(name).assignments}
        theirs = {member.node for each in world.theirs for member in each.members}
        world.decide()
        promised = Counter(
            node
            for name in NAMES
            for each in world.status(name).assignments
            for node in each.nodes
            if each.compute_domain is not None
        )
        assert all(count == 1 for count in promised.values())
        for _, each in fresh(world, before):
            several = Counter(DOMAINS[node] for node in each.nodes if node not in BOARDS).most_common(1)
            shares = bool(several) and several[0][1] > 1
            assert (world.driver and shares) == (each.compute_domain is not None)
            assert each.compute_domain is None or theirs.isdisjoint(each.nodes)
