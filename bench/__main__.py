"""`python -m bench [NAME ...] [--json FILE]`: measure what has a floor; ends with 1 if one is missed."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench import decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.result import Result

BENCHES: dict[str, Callable[[], Result]] = {"decide": decide.measure}


def main() -> int:
    """Run the named benchmarks (all by default) and print one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what has a floor.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(BENCHES)}")
    parser.add_argument("--json", type=Path, help="write the result here too")
    options = parser.parse_args()
    unknown = set(options.names) - BENCHES.keys()
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(BENCHES)}")
    results = [BENCHES[name]() for name in options.names or BENCHES]
    document = json.dumps([{**asdict(result), "ok": result.ok} for result in results], indent=2)
    print(document)
    if options.json is not None:
        options.json.write_text(document + "\n")
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
