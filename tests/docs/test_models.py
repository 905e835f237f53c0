"""The table of docs/models.md is what Weft estimates."""

from __future__ import annotations

import re
from pathlib import Path

from weft.catalog import load
from weft.catalog.starting import CACHE
from weft.domain.spec import SourceKind
from weft.domain.texts.figures import seconds
from weft.perf.starting import checkpoint_bytes, weights_seconds

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
ROWS = {
    "`huggingFace`": SourceKind.HuggingFace.value,
    "`huggingFace` with `cacheClaimName`, filled": CACHE,
    "`pvc`": SourceKind.PVC.value,
    "`image`": SourceKind.Image.value,
    "`uri`": SourceKind.URI.value,
}
COLUMNS = (
    ("meta-llama/Llama-3.1-8B-Instruct", 1),
    ("meta-llama/Llama-3.3-70B-Instruct", 4),
    ("deepseek-ai/DeepSeek-R1", 8),
)
TABLE = PAGE.partition("| source | 8B")[2].partition("\n\n")[0]


def test_every_source_costs_what_the_page_says() -> None:
    told = {
        row: cells.split(" | ")[:3] for row, cells in re.findall(r"^\| (`.*?) \| (.*) \|$", TABLE, flags=re.MULTILINE)
    }
    assert told == {row: [_estimated(kind, *column) for column in COLUMNS] for row, kind in ROWS.items()}


def test_the_page_says_what_comes_to_the_weights() -> None:
    known = load().starting
    (engine,) = set(known.engines.values())
    assert f"{seconds(engine.image_bytes / known.registry)} for the engine's image" in PAGE
    assert f"{seconds(engine.seconds)} and {seconds(engine.layer_seconds)} a layer" in PAGE


def _estimated(kind: str, model: str, gpus: int) -> str:
    known, architecture = load().starting, load().architecture(model)
    assert architecture is not None
    whole = checkpoint_bytes(architecture)
    return seconds(round(weights_seconds(whole, whole / gpus, known.sources[kind], known.loader)))
