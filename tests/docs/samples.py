"""How samples of documents are compared with what is printed."""

from __future__ import annotations

import re

_FIGURE = re.compile(r"\b[0-9][0-9.,]*(?: (?:ms|s|min|h|%))?|\s+")


def without_figures(text: str) -> str:
    """Each figure with its unit is a mark, and each space is one."""
    return "".join(
        f"{_FIGURE.sub(lambda found: '#' if found[0].strip() else ' ', line)}\n" for line in text.splitlines()
    )
