"""Engines on a GPU that is not the first: what carries over, and what the page says that short prompts wait for."""

from __future__ import annotations

from statistics import median

import pytest

from bench.on_gpu.__main__ import recorded
from bench.on_gpu.compared import loops, room

CARD = recorded().second
DEPLOYMENTS = pytest.mark.parametrize("told", [CARD.dense, CARD.fp8, CARD.larger], ids=lambda told: told["name"])
ALONE = {of["precision"]: of for of in CARD.alone["precisions"]}


@DEPLOYMENTS
def test_room_for_kv_carries_over_to_another_card(told: dict[str, object]) -> None:
    """Less than the engine has, as 90 % of the memory are counted on, and not by much."""
    tokens, expected = room(told)
    assert 0.9 * tokens < expected < tokens


@DEPLOYMENTS
def test_a_long_prompt_alone_takes_what_is_expected(told: dict[str, object]) -> None:
    found = next(each for each in loops(told) if (each.input, each.users) == (8192, 1))
    assert found.ttft.expected == pytest.approx(found.ttft.measured, rel=0.06)


@pytest.mark.parametrize("told", [CARD.dense, CARD.fp8], ids=lambda told: told["name"])
def test_a_prompt_that_no_graph_holds_waits_as_long_as_the_host_launches_it(told: dict[str, object]) -> None:
    """512 tokens are the most that a graph is captured for; that is what the page tells of."""
    with_graph, without = (each.ttft for each in loops(told) if each.output == 32)
    assert without.measured > 1.5 * with_graph.measured
    assert without.expected > 1.4 * with_graph.expected
    assert without.expected == pytest.approx(without.measured, rel=0.2)
    assert without.low < without.measured < without.high


def test_prompts_that_the_host_launches_take_as_long_in_both_precisions_while_the_gpu_waits() -> None:
    launched = [
        median(each["milliseconds"]) for of in ALONE.values() for each in of["alone"] if 520 <= each["input"] <= 920
    ]
    assert max(launched) < 1.15 * min(launched)
    for of in ALONE.values():
        for step in of["traced"]["steps"]:
            assert step["busy"] < 0.8 * step["milliseconds"]
    longest = [of["alone"][-1] for of in ALONE.values()]
    bf16, fp8 = (median(each["milliseconds"]) for each in longest)
    assert fp8 < 0.8 * bf16
