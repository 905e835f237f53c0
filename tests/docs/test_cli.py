"""The samples of docs/cli.md are what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.terminal import weft
from weft.cli.failure import __doc__ as exit_codes

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"^```\n\$ weft (.*)\n((?:.*\n)*?)```$", PAGE, flags=re.MULTILINE)
WITHOUT_A_CLUSTER = [(command, printed) for command, printed in SAMPLES if command.split()[0] in {"plan", "fabric"}]


@pytest.mark.parametrize(("command", "printed"), WITHOUT_A_CLUSTER, ids=[command for command, _ in WITHOUT_A_CLUSTER])
def test_a_sample_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch, command: str, printed: str) -> None:
    """A line of three dots stands for any lines. After a change, run the command and paste what it prints."""
    monkeypatch.chdir(REPOSITORY)
    ending = weft(*shlex.split(command))
    pattern = "".join(
        r"(?:.*\n)+?" if line.strip() == "..." else re.escape(f"{line}\n") for line in printed.splitlines()
    )
    assert re.fullmatch(pattern, ending.out), ending.out


def test_there_are_samples_of_every_command_that_needs_no_cluster() -> None:
    """Else the test above would hold for an empty page."""
    assert {"plan", "fabric"} <= {command.split()[0] for command, _ in WITHOUT_A_CLUSTER}
    assert {"explain", "top", "crds"} <= {command.split()[0] for command, _ in SAMPLES}


def test_the_page_has_the_exit_codes_of_the_code() -> None:
    rows = [line for line in (exit_codes or "").splitlines() if line.startswith("|")]
    assert rows
    assert "\n".join(rows) in PAGE
