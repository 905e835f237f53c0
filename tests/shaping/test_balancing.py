"""How ranks shall get their requests decides what a pod is, and what a domain must have room for."""

from __future__ import annotations

import pytest

from tests.shaping.cases import DEEPSEEK, GB200, H200, LLAMA_8B, Wish
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import Balancing, ShapePins

TWO_RANKS_A_TRAY = ShapePins(tensor_parallel=2, data_parallel=8)


@pytest.mark.parametrize(
    ("balancing", "pods", "gpus_per_pod"),
    [
        (Balancing.Internal, 4, 4),
        (Balancing.Hybrid, 4, 4),
        (Balancing.External, 8, 2),
        (Balancing.MultiPort, 4, 4),
    ],
)
def test_external_ranks_are_pods_of_their_own(balancing: Balancing, pods: int, gpus_per_pod: int) -> None:
    found = Wish(DEEPSEEK, (GB200,), pins=TWO_RANKS_A_TRAY, balancing=balancing).plan().shape
    assert (found.pods, found.gpus_per_pod) == (pods, gpus_per_pod)


def test_a_running_shape_is_cut_into_other_pods_when_its_ranks_shall_be_external() -> None:
    before = Wish(DEEPSEEK, (GB200,), pins=TWO_RANKS_A_TRAY).plan()
    after = Wish(DEEPSEEK, (GB200,), pins=TWO_RANKS_A_TRAY, balancing=Balancing.External).plan(before)
    assert (before.shape.gpus_per_pod, after.shape.gpus_per_pod) == (4, 2)


def test_external_ranks_need_as_many_nodes_in_a_domain() -> None:
    """A board is one node: its ranks share a pod."""
    pins = ShapePins(tensor_parallel=1, data_parallel=8)
    with pytest.raises(Invalid, match="8 data-parallel ranks on as many nodes, and an NVLink domain of H200 has 1"):
        Wish(DEEPSEEK, (H200,), pins=pins, balancing=Balancing.External).plan()


@pytest.mark.parametrize(("tensor", "data", "ranks"), [(4, 4, 1), (1, 8, 4), (1, 16, 4), (2, 8, 2)])
def test_ranks_at_ports_of_their_own_are_two_to_eight_in_a_pod(tensor: int, data: int, ranks: int) -> None:
    pins = ShapePins(tensor_parallel=tensor, data_parallel=data, expert_parallel=tensor * data)
    wish = Wish(DEEPSEEK, (GB200,), pins=pins, balancing=Balancing.MultiPort)
    if ranks > 1:
        assert wish.plan().shape.ranks_per_pod == ranks
        return
    with pytest.raises(Invalid, match="MultiPort with 1 data-parallel ranks in a pod; allowed: 2 to 8") as refused:
        wish.plan()
    assert refused.value.reason is Reason.ShapeInvalid


@pytest.mark.parametrize("balancing", Balancing)
def test_a_dense_model_has_no_ranks_and_is_shaped_as_ever(balancing: Balancing) -> None:
    """VLLM refuses external ranks of dense models; Weft gives them none."""
    assert Wish(LLAMA_8B, balancing=balancing).plan().shape == Wish(LLAMA_8B).plan().shape
    with pytest.raises(Invalid, match="no experts to share between ranks"):
        Wish(LLAMA_8B, pins=ShapePins(data_parallel=2), balancing=balancing).plan()
