"""Python's search for cyclic garbage stands still in a pass, and nowhere else."""

from __future__ import annotations

import gc

import pytest

from weft.control.deciding.garbage import collected_afterwards


def test_nothing_is_searched_in_between() -> None:
    """It goes on after the pass, however that ended."""
    with collected_afterwards():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="a pass that failed"), collected_afterwards():
        raise ValueError("a pass that failed")
    assert gc.isenabled()


def test_who_has_none_gets_none() -> None:
    """Where the search is off it stays off."""
    gc.disable()
    try:
        with collected_afterwards():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
