"""Commands that take minutes: run to their end, watched on stderr, and timed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from e2e.cluster.processes import tied_to_parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

INTERRUPT_GRACE_SECONDS = 60.0  # a suite stops its clusters first


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and after how long."""

    command: str
    exit_code: int
    seconds: float

    @property
    def problem(self) -> str | None:
        """What went wrong, in one sentence."""
        return None if self.exit_code == 0 else f"`{self.command}` ended with code {self.exit_code}"


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """Run it to its end; what it prints goes to stderr, because stdout is for the figures."""
    begun = time.monotonic()
    process = subprocess.Popen(
        tied_to_parent(command),
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        start_new_session=True,  # Ctrl-C reaches us alone, and everything it started once, through us
    )
    try:
        exit_code = process.wait()
    except BaseException:
        _interrupt(process)
        raise
    return Ended(" ".join(command), exit_code, time.monotonic() - begun)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(INTERRUPT_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
