"""What the pictures of benchmarks have in common: colours, type, and SVG that is readable on light and dark pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from weft.cli.plan.dark_svg import also_dark

if TYPE_CHECKING:
    from collections.abc import Callable

INK, SOFT, QUIET, WEFT, BAD, GRID = "#1d2733", "#5b6673", "#8d97a3", "#1668a8", "#b3403a", "#e7e9ec"
TEAL, RUST, PURPLE, SAND = "#0f8277", "#b85c1e", "#7a4fa3", "#9a7b1f"  # told apart by marks too
PAPER = "#ffffff"  # as the page is: around marks that stand on others
_DARK = {
    INK: "#e8ebef",
    SOFT: "#a3adb9",
    QUIET: "#7d8894",
    WEFT: "#5fb0ea",
    BAD: "#ef8079",
    GRID: "#252b32",
    TEAL: "#4cc4b5",
    RUST: "#f0975a",
    PURPLE: "#bd97e6",
    SAND: "#d6b95c",
    PAPER: "#0d1117",
}
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that the picture is the same everywhere
    "font.size": 9.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "weft",
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "xtick.color": SOFT,
    "ytick.color": INK,
}


def as_svg_of(draw: Callable[[], Any], title: str) -> str:
    """The SVG of the matplotlib Figure that `draw` makes; the same figure is the same bytes."""
    from matplotlib import rc_context, rcdefaults, rcParams  # noqa: PLC0415 - a second that only a picture takes

    content = io.BytesIO()
    with rc_context():
        rcdefaults()
        rcParams.update(_STYLE)
        metadata = {"Date": None, "Creator": "Weft", "Title": title}
        draw().savefig(content, format="svg", transparent=True, metadata=metadata)
    return also_dark(content.getvalue().decode(), _DARK)
