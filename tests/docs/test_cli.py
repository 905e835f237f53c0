"""The samples of docs/cli.md are what the commands print."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tests.cli.terminal import weft
from tests.docs.samples import pattern_of, sample_of, without_figures
from weft.cli.ends.failure import __doc__ as exit_codes
from weft.cli.main import app
from weft.cli.plan.predicting import ADDED, NEEDED
from weft.cli.simulate.command import POLICIES
from weft.twin.traffic.made_up import SHAPES

REPOSITORY = Path(__file__).parents[2]
FILE = REPOSITORY / "docs" / "cli.md"
PAGE = FILE.read_text(encoding="utf-8")
SAMPLES = re.findall(r"^```\n\$ weft (.*)\n((?:.*\n)*?)```$", PAGE, flags=re.MULTILINE)
ALONE = {"plan", "predict", "fabric", "simulate"}
WITHOUT_A_CLUSTER = [(command, printed) for command, printed in SAMPLES if command.split()[0] in ALONE]
PREDICTED = re.findall(r"^```\n(model,.*\n(?:.*\n)*?)```$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def beside_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where they find the examples, and may write."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("command", "printed"), WITHOUT_A_CLUSTER, ids=[command for command, _ in WITHOUT_A_CLUSTER])
def test_a_sample_is_what_the_command_prints(command: str, printed: str) -> None:
    """A line of three dots stands for any lines. `WEFT_GOLDEN=write` records what is printed.

    Figures of a simulation change with whatever decides or serves, and are not held: its words, rows and columns are.
    """
    out = weft(*shlex.split(command)).out
    shown = sample_of(FILE, command, printed, out)
    if command.startswith("simulate"):
        out, shown = without_figures(out), without_figures(shown)
    assert re.fullmatch(pattern_of(shown), out), out


def test_there_are_samples_of_every_command_that_needs_no_cluster() -> None:
    """Else the test above would hold for an empty page."""
    assert {command.split()[0] for command, _ in WITHOUT_A_CLUSTER} == ALONE
    assert {"explain", "top", "crds"} <= {command.split()[0] for command, _ in SAMPLES}


@pytest.mark.parametrize("command", ["plan", "simulate", "predict", "explain", "fabric", "replay", "run"])
def test_every_option_of_a_command_is_in_its_section(command: str) -> None:
    """By its long or its short name."""
    section = next(each for each in PAGE.split("\n## ") if each.startswith(f"weft {command}"))
    names = [each.opts for each in get_command(app).commands[command].params if each.name != "help"]  # type: ignore[attr-defined]
    assert [] == [each for each in names if each[0].startswith("-") and not any(name in section for name in each)]


def test_the_predictions_of_the_page_are_those_that_the_sample_writes() -> None:
    (sample,) = PREDICTED
    weft(*shlex.split(next(command for command, _ in WITHOUT_A_CLUSTER if command.startswith("predict"))))
    with Path("predicted.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    shown = list(csv.DictReader(sample.splitlines()))
    assert [{name: row[name] for name in shown[0]} for row in written] == shown


def test_the_page_explains_every_column_that_is_read_or_added() -> None:
    explained = set(
        re.findall(r"`([a-z_]+)`", "".join(line.split(" | ")[0] for line in PAGE.splitlines() if "|" in line))
    )
    added = {name for name in ADDED if not name.endswith(("_low", "_high"))}
    with Path("examples/predict.csv").open(encoding="utf-8", newline="") as file:
        columns = set(next(csv.reader(file)))
    assert {*NEEDED, *added, *columns} <= explained


def test_the_page_names_every_policy_and_all_that_a_made_up_trace_takes() -> None:
    section = PAGE.partition("## weft simulate")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)`", section))
    assert {*POLICIES, *SHAPES, *(key for _, own in SHAPES.values() for key in own)} <= named


def test_the_page_has_the_exit_codes_of_the_code() -> None:
    rows = [line for line in (exit_codes or "").splitlines() if line.startswith("|")]
    assert rows
    assert "\n".join(rows) in PAGE
