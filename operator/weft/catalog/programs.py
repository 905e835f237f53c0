"""Programs that run in pods, as text."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def download_program() -> str:
    """The Python program that downloads weights; its module says which arguments it takes. Read once per process."""
    return resources.files("weft.pods").joinpath("download_weights.py").read_text(encoding="utf-8")
