"""What `--help` says reads on any terminal, and names units and defaults."""

from __future__ import annotations

import pytest
from typer.main import get_command

from tests.cli.terminal import shell, weft
from weft.cli.main import app

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_names_no_value(command: str) -> None:
    """`--chart <bool>` would ask for one."""
    assert "<bool>" not in weft(command, "-h").out
    assert "<bool>" not in weft("-h").out


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_for_a_time_says_what_it_takes(command: str) -> None:
    params = get_command(app).commands[command].params  # type: ignore[attr-defined]
    assert [] == [each.name for each in params if each.metavar == "TIME" and "seconds, or 90s" not in each.help]
    assert "SECONDS" not in [each.metavar for each in params]


def test_a_paragraph_flows_to_the_width_of_the_terminal() -> None:
    """As it is written it would break in the middle of lines."""
    shown = shell("plan", "-h", COLUMNS="72", TERMINAL_WIDTH="72").out
    above = [line.strip() for line in shown.partition("Options")[0].splitlines()]
    paragraph = above[next(at for at, line in enumerate(above) if line.startswith("Plans the resources")) :]
    assert all(len(line) > 50 for line in paragraph[: paragraph.index("") - 1])


def test_what_counts_when_an_option_is_left_out_is_said() -> None:
    told = " ".join(shell("plan", "-h", COLUMNS="300", TERMINAL_WIDTH="300").out.split())
    assert all(f"[default: {each}]" in told for each in ("1", "1024", "256"))
