"""A figure passes when it was measured, nothing went wrong and it stays under its floor."""

from __future__ import annotations

import pytest
from rich.console import Console

from bench.machine import Machine, cpu_model, this_machine
from bench.result import Result, document, table

MACHINE = Machine("AMD EPYC", 2, 24 * 1024**3, "Linux 6.1", "3.11.7")
HELD = Result("decide-wall-p99", 99.9, "ms", 100.0, {"passes": 300})
MISSED = Result("demo-operator-peak-resident", 212_300_000, "bytes", 200e6)


@pytest.mark.parametrize(
    ("result", "passed"),
    [
        (Result("x", 99.9, "ms", 100.0), True),
        (Result("x", 0.0, "ms", 100.0), True),
        (Result("x", 100.0, "ms", 100.0), False),
        (Result("x", 100.1, "ms", 100.0), False),
        (Result("x", None, "s", 60.0), False),
        (Result("x", 12.0, "s", 60.0, problem="`make test` ended with code 2"), False),
    ],
    ids=["under", "nothing", "exactly", "over", "not measured", "failed early"],
)
def test_a_floor_holds_only_strictly_under_it_and_for_what_went_well(result: Result, passed: bool) -> None:  # noqa: FBT001 - the expected answer
    assert passed == result.passed


def test_the_document_names_the_machine_and_says_all_of_each_figure() -> None:
    told = document(MACHINE, [HELD])
    assert told == {
        "machine": {
            "cpu": "AMD EPYC",
            "cores": 2,
            "memory_bytes": 24 * 1024**3,
            "kernel": "Linux 6.1",
            "python": "3.11.7",
        },
        "passed": True,
        "results": [
            {
                "name": "decide-wall-p99",
                "value": 99.9,
                "unit": "ms",
                "limit": 100.0,
                "details": {"passes": 300},
                "problem": None,
                "passed": True,
            }
        ],
    }


def test_one_missed_floor_is_a_run_that_did_not_pass() -> None:
    assert not document(MACHINE, [HELD, MISSED])["passed"]


def test_people_read_each_figure_beside_its_floor() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table(MACHINE, [HELD, MISSED, Result("demo-first-ready", None, "s", 60.0, problem="too few")]))
    lines = [line.split() for line in captured.get().splitlines()]
    assert ["decide-wall-p99", "99.9", "ms", "100.0", "ms", "passed"] in lines
    assert ["demo-operator-peak-resident", "212.3", "MB", "200.0", "MB", "missed"] in lines
    assert ["demo-first-ready", "-", "60.0", "s", "missed", "too", "few"] in lines


def test_this_machine_is_named() -> None:
    machine = this_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**28
    assert machine.python.startswith("3.")


def test_a_processor_is_called_what_it_calls_itself() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: Neoverse: N1\nmodel name\t: other\n") == "Neoverse: N1"
    assert cpu_model("processor\t: 0\n") != ""
