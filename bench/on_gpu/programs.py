"""Engines as programs of a machine without a cluster: how they are started, and where they answer that they serve."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """An engine: its name in tables, what starts it, and what every one of Weft's gets, as its adapter renders it."""

    name: str
    command: tuple[str, ...]
    model_flag: tuple[str, ...]
    common: tuple[str, ...]
    version: tuple[str, ...]  # a command whose last word it is

    def started(self, model: Path, port: int, options: tuple[str, ...]) -> tuple[str, ...]:
        """The command for a model with random weights."""
        where = (*self.model_flag, str(model), "--served-model-name", model.name, "--port", str(port))
        return (*self.command, *where, *self.common, *_RANDOM_WEIGHTS, *options)

    def release(self) -> str:
        """The version that is installed here."""
        told = subprocess.run(self.version, check=True, capture_output=True, text=True)
        return told.stdout.split()[-1]


_RANDOM_WEIGHTS = ("--load-format", "dummy")
VLLM = Program(
    "vllm", ("vllm", "serve"), (), ("--max-model-len", "auto", "--shutdown-timeout", "300"), ("vllm", "--version")
)
SGLANG = Program(
    "sglang",
    ("python3", "-m", "sglang.launch_server"),
    ("--model-path",),
    ("--enable-metrics", "--collect-tokens-histogram"),
    ("python3", "-c", "from importlib.metadata import version; print(version('sglang'))"),
)
PROGRAMS = {each.name: each for each in (VLLM, SGLANG)}
