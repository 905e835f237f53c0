"""How many calls of Python functions something takes: work that no busy machine makes longer."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

Found = TypeVar("Found")


def counted(work: Callable[[], Found], function: str = "") -> tuple[Found, int]:
    """What comes of the work, and its calls: of all functions, or of one (`file.py:function`).

    What other tests left is collected before, or finalizers of theirs would run meanwhile and count.
    """
    calls = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call" and f"{frame.f_code.co_filename}:{frame.f_code.co_name}".endswith(function)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return found, calls
