"""Python's cyclic garbage collection, kept out of a pass.

A pass makes hundreds of thousands of values without cycles, which reference counting frees. They trigger collections
all the same, and in a large cluster one takes longer than the pass.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """Turn off cyclic garbage collection within the block; one that has become due runs soon after it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
