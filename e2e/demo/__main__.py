"""`python -m e2e.demo`: the demo on this machine. Ctrl-C stops it and leaves nothing behind."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.cluster.build import BinariesMissingError, BuildFailedError
from e2e.demo.run import PortTakenError, run_demo
from e2e.demo.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from e2e.demo.timeline import Timeline

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, demo: Callable[[Screen, Path, Path], Timeline] = run_demo) -> int:
    """Run it; 0 when every pool became Ready and the report is written, 1 when it is written but a pool did not."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("build/demo-report.html"), help="where the report goes")
    parser.add_argument("--figures", type=Path, default=Path("build/demo.json"), help="where its figures go, as JSON")
    options = parser.parse_args(arguments)
    screen = Screen()
    try:
        timeline = demo(screen, options.report, options.figures)
    except KeyboardInterrupt:
        screen.say("interrupted; everything is stopped")
        return INTERRUPTED
    except (BinariesMissingError, BuildFailedError, PortTakenError) as problem:
        sys.stderr.write(f"demo: {problem}\n")
        return 2
    for value, words in timeline.tiles:
        screen.say(f"{value:>8}  {words}")
    screen.say(f"figures: {options.figures}")
    screen.say(f"report: {options.report.resolve().as_uri()}")
    if timeline.never_ready:
        sys.stderr.write(f"demo: never became Ready: {', '.join(timeline.never_ready)}; the report has the reasons\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
