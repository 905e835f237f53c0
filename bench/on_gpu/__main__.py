"""`python -m bench.on_gpu [--write]`: vLLM on a GPU, as it was measured, beside what Weft expects; docs/gpu.md.

`python -m bench.on_gpu.record` measures anew, on a machine with a GPU and vLLM.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.on_gpu.page import as_page

if TYPE_CHECKING:
    from collections.abc import Sequence

MEASURED = Path(__file__).with_name("measured") / "h100-llama-3.1-8b.json"
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


def main(arguments: Sequence[str]) -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu", description="vLLM on a GPU beside Weft's model.")
    parser.add_argument("--measured", type=Path, default=MEASURED, metavar="FILE", help="what was recorded")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    page = as_page(json.loads(options.measured.read_text(encoding="utf-8")))
    if options.write:
        options.page.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
