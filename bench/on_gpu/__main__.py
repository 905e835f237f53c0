"""`python -m bench.on_gpu [--write]`: engines on a GPU, as they were measured, beside what Weft expects; docs/gpu.md.

`python -m bench.on_gpu.record` measures anew, on a machine with a GPU and vLLM or SGLang.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.on_gpu.page import Recorded, as_page
from bench.on_gpu.second_card import SecondCard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.on_gpu.compared import Measured

_FOLDER = Path(__file__).with_name("measured")
DENSE, EXPERTS = _FOLDER / "h100-llama-3.1-8b.json", _FOLDER / "h100-qwen3-30b-a3b.json"
FP8, SGLANG = _FOLDER / "h100-llama-3.1-8b-fp8.json", _FOLDER / "h100-sglang-llama-3.1-8b.json"
PAIRS = tuple(_FOLDER / f"h100-pair-{kib}k.json" for kib in (8, 64, 128, 512))
H200 = tuple(
    _FOLDER / f"h200-{name}.json" for name in ("llama-3.1-8b", "llama-3.1-8b-fp8", "qwen3-32b", "prompts-alone")
)
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


def main(arguments: Sequence[str]) -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu", description="Engines on a GPU beside Weft's model.")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    page = as_page(recorded())
    if options.write:
        options.page.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0


def recorded() -> Recorded:
    """All that was."""
    second, pairs = SecondCard(*map(told, H200)), [told(each) for each in PAIRS]
    return Recorded(told(DENSE), told(FP8), told(SGLANG), told(EXPERTS), pairs, second)


def told(measured: Path) -> Measured:
    """What was recorded."""
    return dict(json.loads(measured.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
