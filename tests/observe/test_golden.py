"""What every recorded and written page is read to, figure by figure: faster reading may change none of it.

`WEFT_GOLDEN=write` writes the file anew, for changes that are meant.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.observe.pages import FOLDER, observed, pages
from tests.observe.test_pages import split
from weft.engines import series_for

GOLDEN = Path(__file__).parent / "golden" / "observations.json"
RELEASES = sorted(each.name for each in FOLDER.iterdir() if each.is_dir() and "router" not in each.name)


async def test_observations_are_the_recorded_ones() -> None:
    """Of two scrapes, of a restart, of a counter that stands, and of a page that lacks what the others show."""
    seen = json.loads(json.dumps([await _read(release) for release in RELEASES]))
    if os.environ.get("WEFT_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(f"{json.dumps(each)}\n" for each in seen), encoding="utf-8")
    assert [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()] == seen


async def _read(release: str) -> dict[str, Any]:
    series, (first, second) = series_for(*split(release)), pages(release)
    lines = second.splitlines(keepends=True)
    cases = {
        "two": (first, second),
        "restarted": (second, first),
        "standing": (first, second, second),
        "torn": (first, "".join(lines[: len(lines) // 2]), second),
    }
    read = {name: asdict(await observed(series, *texts)) for name, texts in cases.items()}
    return {"release": release, **read}
