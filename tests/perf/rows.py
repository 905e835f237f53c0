"""Rows of a table of measurements as the cases need them."""

from __future__ import annotations

from tests.perf.replicas import CATALOG
from weft.perf.benchmarks.measured import Measurement, measurement

ROW = {
    "model": "Llama-3.3-70B-Instruct",
    "gpu": "H200",
    "n_gpus": "2",
    "engine": "vllm",
    "engine_version": "0.15.0",
    "precision": "FP8",
    "kv_precision": "",
    "tp": "2",
    "ep": "",
    "pp": "",
    "dp": "",
    "isl": "1000",
    "osl": "500",
    "concurrency": "16",
    "request_rate": "",
    "note": "",
}
LAYOUT = "disaggregated P:D = 2 x (tp1 dp8 ep8) : 3 x (tp1 dp32 ep32); closed loop; measured 2026-02-05"


def row(**columns: str) -> dict[str, str]:
    """A closed loop of Llama 70B on two H200; `columns` replace or add."""
    return {**ROW, **columns}


def measured(**columns: str) -> Measurement:
    return measurement(row(**columns), CATALOG)
