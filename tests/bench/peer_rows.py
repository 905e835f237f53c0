"""Tables for the comparison with aiconfigurator, and an interpreter that has a small one of our own instead of it."""

from __future__ import annotations

import csv
import os
import sys
from typing import TYPE_CHECKING

from bench.fitting.rows import read

if TYPE_CHECKING:
    from pathlib import Path

    from bench.fitting.rows import Row

VERSION = "9.9"
_COLUMNS = {
    "source": "a sweep",
    "model": "Llama-3.3-70B-Instruct",
    "gpu": "H200",
    "n_gpus": "4",
    "engine": "vllm",
    "engine_version": "",
    "precision": "FP8",
    "kv_precision": "",
    "tp": "4",
    "ep": "1",
    "pp": "1",
    "dp": "1",
    "isl": "1000",
    "osl": "500",
    "concurrency": "16",
    "request_rate": "",
    "output_tok_s_total": "",
    "ttft_ms": "100",
    "tpot_ms": "10",
    "note": "",
}

# TPOT follows the users; some lengths are trouble.
_API = """
import os, pathlib, threading, types

def cli_estimate(**asked):
    print("chatter that is no answer")
    with pathlib.Path(__file__).with_name("asked").open("a") as file:
        file.write("estimate\\n")
    if asked["isl"] == 13:
        raise RuntimeError("OOM: /a/path/of/the/machine")
    if asked["isl"] == 14:
        os._exit(1)
    if asked["isl"] == 15:
        threading.Event().wait()
    return types.SimpleNamespace(ttft=90.0, tpot=asked["batch_size"] / 2, kv_cache_warning=asked["isl"] == 16)

def cli_default(**asked):
    if asked["backend"] == "sglang":
        raise ValueError("/a/path/of/the/machine")
    return types.SimpleNamespace(chosen_exp="disagg")
"""


def rows_of(file: Path, *varied: dict[str, str]) -> tuple[Row, ...]:
    """The rows of a table that differ from an ordinary one in some columns."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=list(_COLUMNS))
        writer.writeheader()
        writer.writerows({**_COLUMNS, **each} for each in varied)
    return read(file)


def interpreter_in(folder: Path, version: str = VERSION) -> Path:
    """A program that takes the arguments of an interpreter and finds the small aiconfigurator."""
    place = folder / "site"
    package = place / "aiconfigurator" / "cli"
    package.mkdir(parents=True, exist_ok=True)
    (package / "api.py").write_text(_API)
    info = place / "aiconfigurator.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: aiconfigurator\nVersion: {version}\n")
    program = folder / "python-with-aiconfigurator"
    lines = (
        "import runpy, sys",
        f"sys.path.insert(0, {str(place)!r})",
        "runpy.run_path(sys.argv[-1], None, '__main__')",
    )
    program.write_text("\n".join((f"#!{sys.executable}", *lines)))
    program.chmod(program.stat().st_mode | os.X_OK)
    return program


def times_asked(folder: Path) -> int:
    """How often the small aiconfigurator in this folder was asked for an estimate."""
    file = folder / "site" / "aiconfigurator" / "cli" / "asked"
    return len(file.read_text().splitlines()) if file.exists() else 0
