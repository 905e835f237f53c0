"""What is remembered of predictions."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

from tests.perf.replicas import replica, workload
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo
from weft.perf import Question, assess
from weft.perf.service import service

ONE = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
SLO = Slo(ttft=((95, 2.0),), tpot=((95, 0.05),))


def test_a_remembered_prediction_holds_its_answer_and_not_the_steps_that_were_timed_for_it() -> None:
    """Thousands are remembered, each for less than 5 kB; servers with the steps that they have timed hold 40 each."""
    tracemalloc.start()
    try:
        few, many = _held_after(500, 700), _held_after(700, 900)
    finally:
        tracemalloc.stop()
    assert 5e3 > (many - few) / 200


def test_a_load_is_balanced_once_for_all_targets_that_look_at_it() -> None:
    """Searches for other targets begin at the same idle and full replica; another answer is another load."""
    loads = service(ONE, workload(), Role.Aggregated).loads
    found = loads.at(8.0, 200.0, 0.01)
    assert loads.at(8.0, 200.0, 0.01) is found
    assert loads.at(8.0, 100.0, 0.01) != found
    assert loads.at(8.0, 200.0, 0.02) != found


def _held_after(least: int, most: int) -> int:
    """Bytes, once prompts of so many tokens were asked for."""
    for tokens in range(least, most):
        assess(ONE, Question(replace(workload(), input_tokens=float(tokens)), SLO, Role.Aggregated))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    return held
