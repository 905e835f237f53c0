"""`python -m e2e.demo`: the demo on this machine. Ctrl-C stops it and leaves nothing behind."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.cluster.build import BinariesMissingError, BuildFailedError
from e2e.demo.run import run_demo
from e2e.demo.screen import Screen

INTERRUPTED = 130


def main() -> int:
    """Run it; 0 when every pool became Ready and the report is written."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("build/demo-report.html"), help="where the report goes")
    parser.add_argument("--figures", type=Path, default=Path("build/demo.json"), help="where its figures go, as JSON")
    options = parser.parse_args()
    screen = Screen()
    try:
        timeline = run_demo(screen, options.report, options.figures)
    except KeyboardInterrupt:
        screen.say("interrupted; everything is stopped")
        return INTERRUPTED
    except (BinariesMissingError, BuildFailedError) as problem:
        sys.stderr.write(f"demo: {problem}\n")
        return 2
    for value, words in timeline.tiles:
        screen.say(f"{value:>8}  {words}")
    screen.say(f"figures: {options.figures}")
    screen.say(f"report: {options.report.resolve().as_uri()}")
    return 0


sys.exit(main())
