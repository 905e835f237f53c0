"""What aiconfigurator, a planner that people use, makes of the rows that Weft is scored on.

It runs where it is installed, in an interpreter of its own (`--aiconfigurator PYTHON`). Its last figures are kept in
`bench/peers.json` with the machine, the version and the day; a page that is written without it shows those as such.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.aic.asking import Interpreter, Memory, said
from bench.aic.plans import our_plan, plan_questions
from bench.aic.questions import questions
from bench.aic.scored import Predicted, arrays, off, scores
from bench.fitting.fit import Problem
from bench.fitting.rows import of_kind
from bench.machine import this_machine
from weft.catalog import load
from weft.perf.benchmarks.expected import expected
from weft.perf.benchmarks.measured import Kind

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from bench.aic.asking import Answer
    from bench.aic.questions import Question
    from bench.fitting.rows import Row
    from weft.perf.benchmarks.closed_loop import Latencies

LAST_FIGURES = Path(__file__).with_name("peers.json")
ROW_SECONDS, PLAN_SECONDS = 120.0, 1800.0
ROWS_BETWEEN_WORDS = 50
_MILLI = 1e-3


def add_options(parser: ArgumentParser) -> None:
    """What `compared` needs to know."""
    parser.add_argument("--aiconfigurator", type=Path, metavar="PYTHON", help="an interpreter that has aiconfigurator")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="answers of aiconfigurator, to go on from")
    parser.add_argument("--peers", type=Path, metavar="FILE", default=LAST_FIGURES, help="its last figures")


def compared(rows: tuple[Row, ...], options: Namespace) -> dict[str, Any] | None:
    """Its figures: measured now and kept, or without an interpreter the last that were; None where there are none.

    `ours` are Weft's of this moment on the rows that it answered, None where it was asked about other rows.
    """
    problem = Problem(of_kind(rows, Kind.ClosedLoop))
    if options.aiconfigurator is not None:
        figures = _measured(problem, options.aiconfigurator, options.cache)
        options.peers.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    elif not options.peers.exists():
        return None
    found: dict[str, Any] = json.loads(options.peers.read_text(encoding="utf-8"))
    if _digest(problem.rows) != found["table"]:
        return {**found, "ours": None}
    answered = ~np.isin(np.arange(len(problem.rows)), found["theirs"]["unanswered"])
    return {**found, "ours": off(problem, _ours(problem.rows), answered)}


def _measured(problem: Problem, python: Path, cache: Path | None) -> dict[str, Any]:
    machine, load_average = this_machine(), round(os.getloadavg()[0], 2)
    with Interpreter(python) as interpreter:
        memory = Memory(cache, f"{interpreter.version} on {machine}")
        predicted = _predictions(problem.rows, interpreter, memory)
        plans = _plans(interpreter, memory)
        version = interpreter.version
    return {
        "version": version,
        "machine": {**asdict(machine), "words": str(machine)},
        "date": datetime.now(UTC).date().isoformat(),
        "table": _digest(problem.rows),
        "theirs": scores(problem, predicted),
        "plans": {"theirs": plans, "ours": our_plan()},
        "load_average": load_average,
    }


def _predictions(rows: tuple[Row, ...], interpreter: Interpreter, memory: Memory) -> list[Predicted]:
    """Of every row, in their order; asked by place, so that it reads each of its tables once."""
    found: dict[int, Predicted] = {}
    asked = [(index, questions(row)) for index, row in enumerate(rows)]
    for index, ways in sorted(asked, key=lambda each: [way.text for way in each[1]]):
        found[index] = _predicted(ways, interpreter, memory)
        if len(found) % ROWS_BETWEEN_WORDS == 0 or len(found) == len(rows):
            answered = sum(each.is_answered for each in found.values())
            _say(f"{len(found)} of {len(rows)} rows, {answered} answered")
    return [found[index] for index in range(len(rows))]


def _predicted(ways: tuple[Question, ...], interpreter: Interpreter, memory: Memory) -> Predicted:
    """The first way that has an answer, else why the first has none: by the name of its error alone."""
    first = ""
    for way in ways:
        answer = said(interpreter, memory, way, ROW_SECONDS)
        if "refused" not in answer:
            times = answer["ttft_ms"] * _MILLI, answer["tpot_ms"] * _MILLI
            return Predicted(*times, overfull=answer["overfull"])
        first = first or _name(answer)
    return Predicted(refused=first or "no such GPU")


def _plans(interpreter: Interpreter, memory: Memory) -> dict[str, Answer]:
    """One plan by engine, each in a process that has planned nothing before."""
    found: dict[str, Answer] = {}
    for backend, question in plan_questions().items():
        interpreter.stop()
        answer = said(interpreter, memory, question, PLAN_SECONDS)
        found[backend] = {**answer, "refused": _name(answer)} if "refused" in answer else answer
        _say(f"a plan with {backend}: {found[backend]}")
    return found


def _name(refusal: Answer) -> str:
    """Of its error: what it says beside that has paths of the machine."""
    kind, _, words = str(refusal["refused"]).partition(": ")
    return "out of memory" if words.startswith("OOM") else kind


def _ours(rows: tuple[Row, ...]) -> Latencies:
    """What `weft predict` says of the same rows, with the coefficients that ship."""
    each = [expected(row.at, load()) for row in rows]
    return arrays([(one.ttft.value if one.ttft else np.inf, one.tpot.value if one.tpot else np.inf) for one in each])


def _digest(rows: tuple[Row, ...]) -> str:
    return sha256(json.dumps([row.columns for row in rows], sort_keys=True).encode()).hexdigest()


def _say(words: str) -> None:
    print(f"aiconfigurator: {words}", file=sys.stderr, flush=True)
