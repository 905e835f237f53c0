"""The table of vLLM's options is what its sources say, without running them."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest
import yaml

from bench.vllm_options import options_of, release_of, written

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = """
class EngineArgs:
    def add_cli_args(parser):
        "Not an option: --model in a sentence."
        parser.add_argument("--model", "-m", help="--not-this one")
        for argument, kind in [("--old", str)]:
            parser.add_argument(argument, type=kind, choices=["auto"])

def other(parser):
    parser.add_argument("--of-another-command")
"""
SERVER = """
class BaseFrontendArgs:
    chat_template: str | None = None

class FrontendArgs(BaseFrontendArgs):
    port: int = 8000

class Unrelated:
    nothing: int = 0

def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true")
"""
OF_OTHERS = "vllm-0.32.0/tests/entrypoints/test_cli_args.py"


def sdist(folder: Path, **files: str) -> Path:
    path = folder / "vllm-0.32.0.tar.gz"
    named = {f"vllm-0.32.0/vllm/{name.replace('__', '/')}.py": text for name, text in files.items()}
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {**named, OF_OTHERS: ENGINE.replace("--model", "--tested")}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_options_are_read_from_both_parsers(tmp_path: Path) -> None:
    path = sdist(tmp_path, engine__arg_utils=ENGINE, entrypoints__openai__cli_args=SERVER)
    assert release_of(path) == (0, 32, 0)
    assert set(options_of(path)) == {"--model", "-m", "--old", "--chat-template", "--port", "--headless"}


def test_options_that_come_and_go_together_are_a_group() -> None:
    found: dict[tuple[int, ...], frozenset[str]] = {
        (0, 10, 0): frozenset({"--always", "--back", "--early"}),
        (0, 11, 0): frozenset({"--always"}),
        (0, 12, 0): frozenset({"--always", "--back", "--late", "--new"}),
    }
    table = yaml.safe_load(written(found))
    assert table["releases"] == ["0.10.0", "0.11.0", "0.12.0"]
    assert table["groups"] == [
        {"since": "0.10.0", "until": "0.10.0", "options": ["--back", "--early"]},
        {"since": "0.10.0", "options": ["--always"]},
        {"since": "0.12.0", "options": ["--back", "--late", "--new"]},
    ]


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not named like"):
        release_of(tmp_path / "vllm-0.33.0-cp38-abi3-manylinux1_x86_64.whl")
