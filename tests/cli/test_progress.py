"""Who waits for more than two seconds is told what for, on stderr; who does not is told nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.terminal import pool, shell, written
from tests.eventually import eventually
from weft.cli.telling import terminal

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_file_that_comes_slowly_is_named() -> None:
    """Here it comes only once the line is there."""
    command = [sys.executable, "-m", "weft.cli", "plan", "-f", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stderr is not None
        assert "weft: reading standard input ...\n" == running.stderr.readline()
        out, more = running.communicate(yaml.safe_dump(pool()), timeout=50)
    assert (0, "") == (running.returncode, more.replace("weft: planning ...\n", ""))
    assert "InferencePool/chat" in out


@pytest.mark.parametrize("watched", [True, False])
def test_a_simulation_shows_how_far_it_is_and_the_time_left_on_a_terminal_alone(
    tmp_path: Path, *, watched: bool
) -> None:
    file = written(tmp_path / "pool.yaml", pool())
    asked = ("simulate", "-f", file, "--fabric", "1xH100", "--trace", "poisson:rate=2,seconds=600", "-o", "json")
    ending = shell(*asked, FORCE_COLOR="1" if watched else "", TERM="xterm")
    shown = re.findall(r"simulating weft.*?(\d+)%.*?(-:--:--|\d+:\d\d:\d\d)", ending.err)
    assert bool(shown) is watched
    assert json.loads(ending.out)["policy"] == "weft"
