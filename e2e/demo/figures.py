"""What one run of the demo measured, as numbers: for the report's tiles, and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in seconds, from nothing (with binaries that are there) unless the name says otherwise.

    None: no pool became Ready, the operator had ended, or a pool had no traffic to judge by.
    """

    seconds: float
    first_ready_seconds: float | None
    first_ready_after_apply_seconds: float | None
    operator_peak_resident_bytes: int | None
    attainment: dict[str, float | None]  # fraction of the seconds with traffic in which a pool met its SLO

    def tiles(self) -> list[tuple[str, str]]:
        """The same for people: a number and what it is."""
        told = [
            (_percent(share) if share is not None else "-", f"of the seconds with traffic, {name} met its SLO")
            for name, share in self.attainment.items()
        ]
        if self.first_ready_seconds is not None:
            told.append((f"{self.first_ready_seconds:.0f} s", "from nothing to the first pool Ready"))
        if self.operator_peak_resident_bytes is not None:
            megabytes = self.operator_peak_resident_bytes / MEGA
            told.append((f"{megabytes:.0f} MB", "resident memory of the operator at its peak"))
        return told

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{json.dumps(asdict(self), indent=2)}\n")


def _percent(share: float) -> str:
    """`88.5%`; without a decimal only where none is left out."""
    return f"{share:.0%}" if share in {0.0, 1.0} else f"{share:.1%}"


def peak_resident_bytes(pid: int) -> int | None:
    """The most physical memory a process has held at once; None when there is no such process any more."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    kilobytes = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return next((each * 1024 for each in kilobytes), None)  # a process that has ended has no memory
