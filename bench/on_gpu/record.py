"""`python -m bench.on_gpu.record --output FOLDER`: what engines do on this machine's GPU, as JSON.

Needs `vllm` on the path or `sglang` in `python3`, and `nvidia-smi`, and nothing of Weft but the catalog's files and its
clients of engines. Each engine of plan.yaml is started with random weights, asked, and ended by SIGTERM while it
answers. Its log and its `/metrics` are left in the folder too.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Any

import yaml

from bench.on_gpu.halves import after_a_kill
from bench.on_gpu.leaving import left
from bench.on_gpu.loads import Crowd, Lengths
from bench.on_gpu.plan import PLAN
from bench.on_gpu.programs import PROGRAMS, Program
from bench.on_gpu.reading import kv_tokens
from bench.on_gpu.serving import ALONE, Engine, Pair, served

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.truth_bench.asking import Served, Timed

_FACTS = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"


def main(arguments: Sequence[str]) -> int:
    """Record what works; ends with 1 where an engine did not."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu.record", description="Engines on this machine's GPU.")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="in this order")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no engine outlives it
    plan = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    parts = {each["name"]: (recorded, each) for key, recorded in RECORDED.items() for each in plan[key]}
    crowd, failed = Crowd(), False
    for name in options.only or parts:
        recorded, part = parts[name]
        try:
            told = machine(program_of(part))
            for more in recorded(part, crowd, options.output):  # kept at once: the machine may be lent for minutes
                told |= more
                text = json.dumps(told, allow_nan=False)
                (options.output / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        except Exception:  # noqa: BLE001 - the other engines are recorded all the same
            traceback.print_exc()
            failed = True
    crowd.leave()
    return int(failed)


def program_of(part: Mapping[str, Any]) -> Program:
    """The engine that a part of the plan names; vLLM where it names none."""
    return PROGRAMS[part.get("engine", "vllm")]


def machine(program: Program) -> dict[str, Any]:
    """The GPU as its driver tells it, and the engine's release."""
    asked = ("nvidia-smi", f"--query-gpu={_FACTS}", "--format=csv,noheader")
    facts = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return {"gpu": dict(zip(_FACTS.split(","), facts.split(", "), strict=True)), program.name: program.release()}


def one_engine(part: Mapping[str, Any], crowd: Crowd, folder: Path) -> Iterator[dict[str, Any]]:
    """Its start, its closed loops, its arrivals at random, how it leaves while it answers, and maybe a second start."""
    model, place = served(part.get("model", part["name"]), folder), replace(ALONE, program=program_of(part))
    told = {each: part[each] for each in ("name", "model", "precision", "options") if each in part}
    with Engine(part["name"], model.folder, part["options"], folder, place) as engine:
        yield told | {"start_seconds": engine.start_seconds, "kv_tokens": kv_tokens(engine.metrics())}
        crowd.users(engine.url, model.asked, part["closed"][1])  # what is compiled at the first request of its kind
        closed = []
        for loop in part["closed"]:
            closed.append(closed_told(loop, crowd.users(engine.url, model.asked, loop)))
            yield {"closed": closed}
        if "open" in part:
            yield {"open": list(opened_told(part["open"], closed, crowd, engine.url, model.asked))}
        (folder / f"{part['name']}.metrics.txt").write_text(engine.metrics(), encoding="utf-8")
        yield {"leaving": left(engine, model.asked)}
    if part.get("again", True):
        with Engine(f"{part['name']}-again", model.folder, part["options"], folder, place) as again:
            yield {"start_again_seconds": again.start_seconds}  # what was compiled is kept


def both_halves(part: Mapping[str, Any], crowd: Crowd, folder: Path) -> Iterator[dict[str, Any]]:
    """Requests through both halves and to the decode engine alone, and what a killed prefill engine costs."""
    model, name, loops = served(part["model"], folder), part["name"], part["closed"]
    with Pair(part, model.folder, folder) as pair:
        through = replace(model.asked, headers=pair.through_prefill)
        crowd.users(pair.url, through, loops[1])
        split = [closed_told(loop, crowd.users(pair.url, through, loop)) for loop in loops]
        for side, engine in (("prefill", pair.prefill), ("decode", pair.decode)):
            (folder / f"{name}-{side}.metrics.txt").write_text(engine.metrics(), encoding="utf-8")
        yield {each: part[each] for each in ("name", "model", "wires", "pieces_kib", "options")} | {"split": split}
        yield {"alone": [closed_told(loop, crowd.users(pair.decode.url, model.asked, loop)) for loop in loops]}
        yield {"killed": after_a_kill(pair.prefill, pair.decode.url, model.asked)}
        (folder / f"{name}-killed.metrics.txt").write_text(pair.decode.metrics(), encoding="utf-8")


def closed_told(loop: Mapping[str, int], found: Sequence[Timed]) -> dict[str, Any]:
    """The loop and what its requests saw; a line on stderr, since it takes minutes."""
    told = {"users": loop["users"], **shown(Lengths(loop["input"], loop["output"]), found)}
    print(f"{told}", file=sys.stderr, flush=True)
    return told


def opened_told(
    part: Mapping[str, Any], closed: Iterable[Mapping[str, Any]], crowd: Crowd, url: str, model: Served
) -> Iterator[dict[str, Any]]:
    """Arrivals at parts of the rate that a closed loop of `of_users` had."""
    lengths, users = Lengths(part["input"], part["output"]), part["of_users"]
    full = next(each for each in closed if (each["input"], each["users"]) == (lengths.input, users))
    rate = users / full["seconds"]
    for load in part["loads"]:
        found = crowd.arrivals(url, model, lengths, load * rate, part["requests"])
        told = {"load": load, "rate": round(load * rate, 3), **shown(lengths, found)}
        print(f"{told}", file=sys.stderr, flush=True)
        yield told


def shown(lengths: Lengths, found: Sequence[Timed]) -> dict[str, Any]:
    """Nominal lengths, how many requests, the mean seconds of one, and TTFT and TPOT in milliseconds."""
    seconds = mean(each.last - each.sent for each in found)
    told = {"input": lengths.input, "output": lengths.output, "requests": len(found), "seconds": round(seconds, 4)}
    return told | {
        "ttft_ms": percentiles([1000.0 * each.ttft for each in found]),
        "tpot_ms": percentiles([1000.0 * each.tpot for each in found]),
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Their mean, median and 95th percentile."""
    cuts = quantiles(values, n=20, method="inclusive")
    return {"mean": round(mean(values), 3), "p50": round(cuts[9], 3), "p95": round(cuts[18], 3)}


RECORDED = {"engines": one_engine, "pairs": both_halves}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
