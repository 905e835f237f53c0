"""The machine that figures belong to."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure depends on. `cores` are those this process may use."""

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str

    def __str__(self) -> str:
        """One line."""
        memory = f"{self.memory_bytes / GIB:.0f} GiB"
        return f"{self.cpu}, {self.cores} cores, {memory}, {self.kernel}, Python {self.python}"


def this_machine() -> Machine:
    """Where this process runs."""
    return Machine(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def cpu_model(cpuinfo: str) -> str:
    """The name that the first processor gives itself; on ARM, where it gives none, the architecture."""
    facts = (line.partition(":") for line in cpuinfo.splitlines())
    names = (value.strip() for key, _, value in facts if key.strip() == "model name")
    return next(names, platform.machine())
