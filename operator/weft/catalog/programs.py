"""Programs that run in pods, as text; their modules say which arguments they take. Each is read once per process."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def download_program() -> str:
    """The Python program that downloads weights."""
    return _text("download_weights.py")


@functools.cache
def mpi_program() -> str:
    """The Python program that puts the pods of a replica into one MPI world."""
    return _text("mpi_world.py")


@functools.cache
def front_program() -> str:
    """The Python program that runs TensorRT-LLM's router for the pods of one generation."""
    return _text("pair_front.py")


def _text(name: str) -> str:
    return resources.files("weft.pods").joinpath(name).read_text(encoding="utf-8")
