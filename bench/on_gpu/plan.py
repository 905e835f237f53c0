"""What engines are started with and asked, on a machine with a GPU."""

from __future__ import annotations

from pathlib import Path

PLAN = Path(__file__).with_name("plan.yaml")
COMMON = ("--max-model-len", "auto", "--shutdown-timeout", "300")  # what every engine of Weft's gets
