"""Groups beyond an NVLink domain are slower than groups within: NICs carry less, and take longer to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.perf.rows import measured
from weft.catalog import load
from weft.perf.crossing import across_domains, reach
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

DEEPSEEK = {"model": "DeepSeek-R1", "gpu": "H100"}


def replica(**columns: str) -> ReplicaModel:
    return measured(**{**DEEPSEEK, **columns}).replica


def in_one_domain(**columns: str) -> ReplicaModel:
    """The same on devices whose link joins all of them; what such a row was worked out from."""
    found = replica(**columns)
    plain = replica(tp="8", ep="8")
    wide = replace(plain.accelerator, domain_gpus=64)
    return across_domains(replace(plain, shape=found.shape, accelerator=wide))


@pytest.mark.parametrize(
    "columns",
    [{"tp": "8", "ep": "8"}, {"tp": "1", "dp": "8", "ep": "8"}, {"gpu": "GB200", "tp": "1", "dp": "64", "ep": "64"}],
)
def test_a_group_within_its_domain_is_as_it_was(columns: dict[str, str]) -> None:
    found = replica(**columns)
    assert across_domains(found) is found
    assert found.accelerator.scale_up_bandwidth > found.accelerator.network_bandwidth


def test_cards_that_pcie_joins_reach_each_other_in_their_node() -> None:
    found = replica(model="Llama-3.1-8B-Instruct", gpu="L40S", tp="4").accelerator
    assert (found.domain_gpus, reach(found)) == (1, 8)


@pytest.mark.parametrize(("cards", "microseconds"), [("4", 12.8), ("8", 20.8)])
def test_an_all_reduce_over_pcie_waits_as_nccls_tree_does(cards: str, microseconds: float) -> None:
    """6.8 us, and there and back one us for each card but one; RTX PRO 6000 measured 13.5 and 26.7 us for 4 KiB."""
    found = replica(model="Llama-3.3-70B", gpu="RTX PRO 6000", tp=cards).efficiency
    assert found.collective_seconds == pytest.approx(microseconds * 1e-6)


def test_two_cards_reduce_by_a_kernel_of_the_engine_at_the_rate_of_pcie() -> None:
    single, pair = (replica(model="Llama-3.1-8B-Instruct", gpu="L40S", tp=cards).efficiency for cards in ("1", "2"))
    assert pair.collective_seconds == single.collective_seconds
    assert pair.collective_bandwidth == 0.25 < single.collective_bandwidth


@pytest.mark.parametrize(("cards", "measured_us"), [("2", 474), ("4", 888), ("8", 1271)])
def test_an_all_reduce_of_8_mib_over_pcie_takes_about_what_was_measured(cards: str, measured_us: float) -> None:
    """On RTX PRO 6000, by aiconfigurator 0.12.0's table; at the rate of NVLink kernels it would be a third."""
    found = replica(model="Llama-3.3-70B", gpu="RTX PRO 6000", tp=cards)
    step = stepper(found).prefill(512.0, 0.0, 1.0)  # hidden states of 8 KiB x 2
    assert step.parts.reduces / step.work.reduces * 1e6 == pytest.approx(measured_us, rel=0.3)


def test_a_pair_with_a_bridge_is_not_joined_by_pcie() -> None:
    bridged = next(each for each in load().accelerators if each.pcie_bandwidth is not None and each.domain_gpus == 2)
    assert not bridged.over_pcie(2)
    assert bridged.over_pcie(4)


def test_an_all_reduce_over_two_nodes_waits_as_nccls_tree_does() -> None:
    """6.8 us, and there and back seven links of 0.6 us and one network of 5 us."""
    found = replica(tp="16", ep="16")
    assert found.efficiency.collective_seconds == pytest.approx(25.2e-6)
    assert found.accelerator.scale_up_bandwidth == 8 * found.accelerator.network_bandwidth


@pytest.mark.parametrize("columns", [{"tp": "16", "ep": "16"}, {"tp": "1", "dp": "16", "ep": "16"}])
@pytest.mark.parametrize("batch", [1.0, 64.0, 1024.0])
def test_a_step_over_nodes_takes_longer_than_in_a_domain_of_that_size(columns: dict[str, str], batch: float) -> None:
    across, within = stepper(replica(**columns)), stepper(in_one_domain(**columns))
    assert across.decode(batch, 2000.0).seconds > within.decode(batch, 2000.0).seconds
    assert across.prefill(4000.0, 0.0, 1.0).seconds > within.prefill(4000.0, 0.0, 1.0).seconds


def test_each_doubling_of_nodes_waits_once_more_for_the_network() -> None:
    waits = [replica(tp=str(size), ep=str(size)).efficiency.collective_seconds for size in (16, 32, 64)]
    assert waits[1] - waits[0] == pytest.approx(10e-6)
    assert waits[2] - waits[1] == pytest.approx(10e-6)


def test_what_leaves_the_domain_passes_the_nic_of_each_gpu() -> None:
    """Of 16 ranks on two nodes every other expert is beyond the network."""
    across = replica(tp="1", dp="16", ep="16")
    each = across.efficiency.exchange_bandwidth * across.accelerator.scale_up_bandwidth
    assert each / 2 == pytest.approx(0.9 * across.accelerator.network_bandwidth)


def test_prompts_cross_once_for_each_node_and_not_for_each_rank() -> None:
    """Of four nodes 3.6 hold one of eight experts, of their 32 ranks 7.2: half of what single ranks would be sent."""
    across = replica(tp="1", dp="32", ep="32").efficiency
    assert across.prompt_exchange_bandwidth / across.exchange_bandwidth == pytest.approx(1.995, rel=1e-3)
    inside = replica(tp="1", dp="8", ep="8").efficiency
    assert inside.prompt_exchange_bandwidth == inside.exchange_bandwidth


def test_both_halves_of_a_split_cross_their_nodes() -> None:
    note = "P:D = 1 x (tp1 dp16 ep16) : 3 x (tp16 dp1 ep16)"
    found = measured(**DEEPSEEK, tp="16", ep="16", note=note)
    assert found.prefill is not None
    alone = replica(tp="1", dp="16", ep="16")
    assert alone == found.prefill.replica
    assert replica(tp="16", ep="16") == found.replica
