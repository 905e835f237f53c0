"""`python -m bench routers`: real routers as Weft starts them, before played engines on loopback, by setting.

Four engines compute prompts of some hundred tokens one at a time (0.2 s for 320) and answer with 60 tokens at 20 ms,
which grow by 1.6 % with each sequence beside; each has a prefix cache and tells routers tokens. TTFT counts from the
arrival at the engine. `late` is for how long the engines, all in this process, did not run: figures of that size say
nothing, and the machine has too much else to do, or needs a higher `--pace`. Nothing leaves loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.machine import this_machine
from bench.routers_bench import table
from bench.routers_bench.running import Case, Conditions, run
from bench.routers_bench.starting import OWN_THRESHOLD, Setting, sglang_router, vllm_router
from bench.routers_bench.traffic import TRAFFICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.routers_bench.running import Figures

USUAL = Conditions()


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 if a request failed, as its figures are then of something else."""
    parser = _parser()
    options = parser.parse_args(arguments)
    cases = asked(options)
    if not cases:
        parser.error("name --vllm-router, --sglang-router or both")
    conditions = Conditions(
        *(options.seconds, options.busy, options.engines, options.fronts, options.output_tokens, options.pace)
    )
    minutes = sum(each.takes_seconds(conditions) for each in cases) / options.at_once / 60
    print(f"{len(cases)} runs, {options.at_once} at once: about {math.ceil(minutes)} minutes", file=sys.stderr)
    try:
        found = asyncio.run(measured(cases, conditions, options.at_once))
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"Medians and extremes over seeds ({this_machine()}; {conditions}):\n\n{table.head()}")
    for line in lines(found):
        print(line)
    return int(any(each.failed for each in found.values()))


def asked(options: argparse.Namespace) -> list[Case]:
    """All runs, the seeds of one line of the table side by side."""
    programs = ((vllm_router, options.vllm_router), (sglang_router, options.sglang_router))
    routers = [of(path) for of, path in programs if path is not None]
    settings = [
        Setting(),
        *(Setting(threshold=each, relative=options.relative) for each in options.threshold),
        *(Setting(policy=each) for each in options.policy),
    ]
    traffics = [TRAFFICS[name] for name in options.traffic]
    return [Case(*each) for each in itertools.product(routers, traffics, settings, range(options.seeds))]


async def measured(cases: Sequence[Case], conditions: Conditions, at_once: int) -> dict[Case, Figures]:
    """What each run gave, of which so many run side by side; the first that cannot be run ends all."""
    free = asyncio.Semaphore(at_once)

    async def one(case: Case) -> Figures:
        async with free:
            found = await run(case, conditions)
        print(table.one_run(case, found), file=sys.stderr, flush=True)
        return found

    running = [asyncio.create_task(one(case)) for case in cases]
    try:
        return dict(zip(cases, await asyncio.gather(*running), strict=True))
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def lines(found: dict[Case, Figures]) -> list[str]:
    """A line for each router, traffic and setting, in the order in which they were asked for."""
    rows: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in found:
        rows[case.router, case.traffic, case.setting].append(case)
    return [
        table.line(cases[0], [each.seed for each in cases], [found[each] for each in cases]) for cases in rows.values()
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench routers", description="Real routers before played engines on loopback, by setting."
    )
    add = parser.add_argument
    add("--vllm-router", type=_program, metavar="PATH", help="of the program `vllm-router`")
    add("--sglang-router", type=_program, metavar="PATH", help="of the program `sglang-router`")
    add(
        "--threshold",
        type=_whole,
        nargs="*",
        default=[OWN_THRESHOLD],
        metavar="N",
        help="other values of --balance-abs-threshold to run beside Weft's (64, which is the routers' own)",
    )
    add("--relative", type=float, metavar="X", help="--balance-rel-threshold beside those")
    add("--policy", nargs="*", default=[], metavar="NAME", help="other policies to run beside Weft's")
    add("--traffic", nargs="+", default=list(TRAFFICS), choices=TRAFFICS, metavar="NAME", help=", ".join(TRAFFICS))
    add("--seeds", type=_count, default=3, metavar="N", help="runs of each kind (3)")
    add("--seconds", type=_positive, default=USUAL.seconds, metavar="S", help="in which requests come (25)")
    add("--busy", type=_positive, default=USUAL.busy, metavar="PART", help="of the engines' time (0.7)")
    add("--engines", type=_several, default=USUAL.engines, metavar="N", help="behind the routers (4)")
    add("--fronts", type=_count, default=USUAL.fronts, metavar="N", help="routers at once, that share clients (1)")
    add("--output-tokens", type=_whole, default=USUAL.output_tokens, metavar="N", help="of an answer; 0: prefill (60)")
    add("--pace", type=_positive, default=USUAL.pace, metavar="X", help="seconds here for one of an engine (1)")
    add("--at-once", type=_count, default=6, metavar="N", help="runs side by side (6)")
    return parser


def _program(text: str) -> Path:
    path = Path(text).absolute()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file: name the router's program")
    return path


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no whole number of at least 0")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of at least 1")
    return int(text)


def _several(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is no number of at least 2")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value
