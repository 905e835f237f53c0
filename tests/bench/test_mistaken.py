"""The benchmark of pools whose engines are not as fast as predicted."""

from __future__ import annotations

from dataclasses import replace

from bench.mistaken import AT_500, CASES, EXPERTS, WIDE_STEP, Case, row, simulated

OVERRATED = Case(AT_500, WIDE_STEP, prompts=1.4, declared="10", tokens=(2000, 200), model=EXPERTS)


def test_a_pool_that_is_predicted_to_serve_more_than_it_can_does_not_come_and_go() -> None:
    """One replica answers 29 requests/s where 40 are predicted: with 30 coming, the second one has to stay."""
    found = simulated(OVERRATED)
    assert found.attainment >= 0.94
    assert sum(pool.changes for pool in found.pools) <= 3


def test_engines_that_are_slower_are_slower() -> None:
    short = replace(OVERRATED, trace="poisson:rate=10,seconds=600")
    asked, usual = simulated(short), simulated(replace(short, prompts=1.0))
    assert asked.answers.ttft.mean() > 1.02 * usual.answers.ttft.mean()


def test_a_row_tells_what_was_asked_and_what_came_of_it() -> None:
    told = row(replace(CASES[0], trace="poisson:rate=4,seconds=300"))
    assert told.startswith("| Llama-3.1-8B-Instruct | TTFT p95 250ms | `poisson:rate=4,seconds=300` | 1, 1 | 0.")
    assert told.endswith(" | 2 |")
