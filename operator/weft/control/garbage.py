"""Python's search for cyclic garbage, kept out of a pass.

A pass makes hundreds of thousands of values that hold no cycles and are freed by counting. They set off the search all
the same, and in a large cluster one takes longer than the pass.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """No search in between; one that has become due comes soon after."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
