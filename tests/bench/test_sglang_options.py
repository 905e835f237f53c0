"""Options of SGLang out of wheels, however a release declares them."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import yaml

from bench.sglang_options import groups, main, options_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ADDED = """
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument("--tp-size", "--tensor-parallel-size", "-t", type=int)
        parser.add_argument("--old", action="store_true")
"""
ANNOTATED = """
class Parallel:
    plain: int = 1
    tp_size: A[int, Arg(help="size", aliases=["--tensor-parallel-size"])] = 1
    join_offset: A[int, Arg(help="x", cli_name="--elastic-join")] = 0
    hidden: A[bool, Arg(no_cli=True)] = False
    fused: A[bool, Arg(help="y", action=argparse.BooleanOptionalAction)] = True
    new_thing: A[str, "z"] = ""
"""


def wheel(folder: Path, version: str, files: dict[str, str]) -> str:
    path = folder / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return str(path)


def test_both_ways_to_declare_an_option_are_read(tmp_path: Path) -> None:
    old = wheel(
        tmp_path, "0.5.3.post3", {"sglang/srt/server_args.py": ADDED, "sglang/other.py": ADDED.replace("old", "no")}
    )
    new = wheel(tmp_path, "0.5.23", {"sglang/srt/arg_groups/fields/parallel.py": ANNOTATED})
    assert options_of(old) == {"--tp-size", "--tensor-parallel-size", "--old"}
    shared = {"--tp-size", "--tensor-parallel-size"}
    assert options_of(new) == shared | {"--elastic-join", "--fused", "--no-fused", "--new-thing"}


def test_options_are_grouped_by_the_releases_that_have_them() -> None:
    found: dict[tuple[int, ...], set[str]] = {
        (0, 5, 3): {"--a", "--b"},
        (0, 5, 6): {"--a"},
        (0, 5, 10): {"--a", "--b", "--c"},
    }
    assert groups(found) == [
        {"since": "0.5.3", "until": "0.5.3", "options": ["--b"]},
        {"since": "0.5.3", "options": ["--a"]},
        {"since": "0.5.10", "options": ["--b", "--c"]},
    ]


def test_the_table_names_its_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([wheel(tmp_path, "0.5.3.post3", {"sglang/srt/server_args.py": ADDED})])
    text = capsys.readouterr().out
    assert "# 0.5.3.post3." in text
    assert yaml.safe_load(text)["releases"] == ["0.5.3"]
