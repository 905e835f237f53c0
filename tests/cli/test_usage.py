"""What is typed nearly right is answered with what was meant; a shell completes the rest."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import LONGEST_SECONDS, shell, weft

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("plann",), "there is no command 'plann', perhaps plan: there are plan, "),
        (("Simulate",), "perhaps simulate: "),
        (("help", "fabrik"), "there is no command 'fabrik', perhaps fabric: "),
        (("plan", "--rtae", "5"), "no such option: --rtae, perhaps --rate; see `weft plan --help`"),
        (("simulate", "--startup", "5"), "no such option: --startup, perhaps --start-up;"),
        (("plan", "--gpu-hour", "5"), "no such option: --gpu-hour, perhaps --gpu-hour-price;"),
        (("plan", "pool.yaml"), "what 'pool.yaml' is: a file needs --file (-f) before it"),
        (("plan", "-f", "a.yaml", "b.yaml", "c.yaml"), "what 'b.yaml c.yaml' is: a file needs --file (-f) before it"),
        (("crds", "one", "two"), "nothing says what 'two' is: remove it; see `weft crds --help`"),
        (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_nearly_right_is_told_what_was_meant(typed: tuple[str, ...], words: str) -> None:
    ending = weft(*typed)
    assert words in ending.sentence
    assert (2, "") == (ending.code, ending.out)


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_an_option_that_is_like_no_other_is_not_guessed(option: str) -> None:
    """Both are of other commands."""
    assert f"weft: no such option: {option}; see `weft plan --help`" == weft("plan", option, "x").sentence


def test_the_version_and_help_are_commands_too() -> None:
    """As kubectl and helm have them."""
    assert weft("--version").out == weft("version").out
    assert weft("--help").out == weft("help").out
    assert weft("plan", "--help").out == weft("help", "plan").out
    assert [0, 0] == [weft("version").code, weft("help", "plan").code]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["weft", "pl"], ["plan"]),
        (["weft", "plan", "--gpu"], ["--gpu-hour-price"]),
        (["weft", "completion", "z"], ["zsh"]),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_options_and_values(tmp_path: Path, typed: list[str], completed: list[str]) -> None:
    program = tmp_path / "weft"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m weft.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    words = " ".join(typed)
    script = (
        f'source <("{program}" completion bash)\n'
        f'COMP_WORDS=({words}) COMP_CWORD={len(typed) - 1}\n_weft_completion "{program}"\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=LONGEST_SECONDS)
    assert completed == done.stdout.split()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_weft(name: str) -> None:
    assert "_WEFT_COMPLETE=complete_" in shell("completion", name).out
