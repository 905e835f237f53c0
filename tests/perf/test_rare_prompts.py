"""A few prompts that are far longer than all others: two lengths, and what waits behind the long ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.perf.replicas import replica
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo, Workload
from weft.perf import predict
from weft.perf.lengths import with_rare_ones
from weft.perf.service import service

H100 = replica("meta-llama/Llama-3.1-8B-Instruct", "H100", Precision.BF16)
SLO = Slo(ttft=((95, 1.0),), tpot=((95, 0.04),))
ALIKE = Workload(1.0, 2098, 100, 2098, 100, longest_tokens=131_072)
TWO_OF_A_HUNDRED = replace(ALIKE, rare_prompts=(0.02, 100_000 / 2098))


def capacity(load: Workload, role: Role = Role.Aggregated) -> float:
    return predict(H100, load, SLO, role).capacity


def test_two_of_a_hundred_cost_a_replica_most_of_what_it_serves() -> None:
    """In a simulation ten replicas hold 95 of 100 of ten requests a second within the SLO, and eight do not."""
    assert 10.0 < capacity(ALIKE)
    assert 0.5 < capacity(TWO_OF_A_HUNDRED) < 1.25


def test_the_mean_is_kept_with_two_lengths() -> None:
    found = with_rare_ones(2098, (0.02, 100_000 / 2098), 131_072.0)
    assert sum(weight * tokens for weight, tokens in found.points) == pytest.approx(2098)
    assert [round(found.at(percentile)) for percentile in (50, 95, 99)] == [100, 100, 100_000]


def test_none_is_longer_than_the_longest_and_none_shorter_than_nothing() -> None:
    found = with_rare_ones(2098, (0.04, 100_000 / 2098), 50_000.0)
    assert sum(weight * tokens for weight, tokens in found.points) == pytest.approx(2098)
    assert all(0.0 <= tokens <= 50_000.0 for _, tokens in found.points)
    assert with_rare_ones(0.0, (0.02, 40.0), 1000.0).points == ((1.0, 0.0),)


def test_as_many_wait_behind_one_as_come_until_others_have_more() -> None:
    """What a front sends behind a prompt does not grow with its length once the replica has more than others."""
    times = {
        tokens: service(H100, replace(ALIKE, rare_prompts=(0.02, tokens / 2098)), Role.Aggregated).prompts.service(
            1.0, 0.0, 1.0
        )
        for tokens in (50_000, 100_000)
    }
    grown = times[100_000].square / times[50_000].square
    longer = (times[100_000].cube / times[100_000].square) / (times[50_000].cube / times[50_000].square)
    assert grown == pytest.approx(longer, rel=0.05)


def test_halves_of_splits_are_as_they_were() -> None:
    assert capacity(ALIKE, Role.Prefill) == capacity(TWO_OF_A_HUNDRED, Role.Prefill)
    assert capacity(ALIKE, Role.Decode) == capacity(TWO_OF_A_HUNDRED, Role.Decode)
