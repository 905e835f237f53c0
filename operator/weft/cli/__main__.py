"""`python -m weft.cli` is `weft`."""

from __future__ import annotations

from weft.cli.main import app

app()
