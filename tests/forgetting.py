"""Everything that the core remembers, forgotten: what is decided next is worked out from nothing."""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING

from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterator


def forget_everything() -> None:
    """Empty all memories of Weft but the catalog, which is read from files."""
    for each in gc.get_objects():
        if type(each) is LastAnswers:
            each._known.clear()
    for memory in _cached():
        memory.cache_clear()


def _cached() -> Iterator[functools._lru_cache_wrapper[object]]:
    for each in gc.get_objects():
        if type(each) is functools._lru_cache_wrapper:
            module = str(getattr(each, "__module__", ""))
            if module.startswith("weft.") and not module.startswith("weft.catalog"):
                yield each
