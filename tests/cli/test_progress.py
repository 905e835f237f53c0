"""Who waits for more than two seconds is told what for, on stderr; who does not is told nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.eventually import eventually
from weft.cli import terminal

if TYPE_CHECKING:
    import pytest


def test_what_takes_long_is_named_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def told() -> None:
        """A line on stderr."""
        said.append(capsys.readouterr().err)
        assert "weft: reading the cluster ...\n" == "".join(said)

    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.0)
    with terminal.working("reading the cluster"):
        eventually(told)
    assert ("", "") == capsys.readouterr()


def test_what_is_quick_is_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.working("planning"):
        assert 2.0 >= terminal.PATIENCE_SECONDS
    assert ("", "") == capsys.readouterr()
