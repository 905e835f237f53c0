"""`weft predict`: a table in, the same table with predictions out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import weft
from weft.cli.plan.predicting import ADDED, NEEDED

if TYPE_CHECKING:
    from tests.cli.terminal import Ending

HEADER = "model,gpu,engine,precision,tp,isl,osl,concurrency,remark"
GOOD = 'Llama-3.3-70B-Instruct,H200,vllm,FP8,2,1000,500,16,"kept, ""as"" it is\nin two lines"'
UNKNOWN = "acme-9b,H200,vllm,FP8,2,1000,500,16,ünknown"


def table(folder: Path, *lines: str) -> Path:
    file = folder / "in.csv"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def predict(file: Path, output: Path | None = None) -> Ending:
    return weft("predict", "--csv", str(file), "--output", str(output or file.parent / "out.csv"))


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def left(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_rows_pass_through_whole_and_get_predictions(tmp_path: Path) -> None:
    file = table(tmp_path, HEADER, GOOD)
    ending = predict(file)
    assert (ending.code, ending.complaints) == (0, [])
    assert ending.out == f"{tmp_path / 'out.csv'}: 1 of 1 rows answered\n"
    (before,), (after,) = rows(file), rows(tmp_path / "out.csv")
    assert list(after) == [*HEADER.split(","), *ADDED]
    assert {name: after[name] for name in before} == before
    assert after["remark"] == 'kept, "as" it is\nin two lines'
    assert (after["answered"], after["reason"]) == ("true", "")
    for name in ("predicted_ttft_ms", "predicted_tpot_ms", "predicted_output_tok_s_total"):
        assert 0 < float(after[f"{name}_low"]) < float(after[name]) < float(after[f"{name}_high"])
    assert 1 < float(after["predicted_tpot_ms"]) < 100


def test_a_row_without_an_answer_says_why_and_the_others_are_answered(tmp_path: Path) -> None:
    ending = predict(table(tmp_path, HEADER, UNKNOWN, GOOD, GOOD.replace("FP8,2", "BF16,1").replace("H200", "H100")))
    assert (ending.code, ending.complaints) == (1, [])
    assert ending.out.endswith("1 of 3 rows answered\n")
    unknown, good, large = rows(tmp_path / "out.csv")
    assert unknown["reason"] == "ModelUnknown: model 'acme-9b' is not in the catalog"
    assert unknown["remark"] == "ünknown"
    assert large["reason"].startswith("OutOfMemory: weights take 131.4 GiB of each GPU")
    assert [each["answered"] for each in (unknown, good, large)] == ["false", "true", "false"]
    for row in (unknown, large):
        assert {row[name] for name in ADDED if name.startswith("predicted")} == {""}


def test_columns_may_be_written_as_spreadsheets_write_them(tmp_path: Path) -> None:
    header = "Model, GPU,Engine ,Precision,TP,ISL,OSL,Concurrency,Remark"
    assert predict(table(tmp_path, HEADER, GOOD), tmp_path / "plain.csv").code == 0
    assert predict(table(tmp_path, header, GOOD)).code == 0
    assert list(rows(tmp_path / "out.csv")[0]) == [*header.split(","), *ADDED]
    assert list(rows(tmp_path / "out.csv")[0].values()) == list(rows(tmp_path / "plain.csv")[0].values())


def test_a_column_that_is_there_in_two_spellings_could_mean_either(tmp_path: Path) -> None:
    ending = predict(table(tmp_path, f"{HEADER},ISL", f"{GOOD},9"))
    assert (2, "") == (ending.code, ending.out)
    assert "has column isl twice: either could be meant" in ending.sentence


def test_a_load_that_nothing_tells_is_asked_for_by_its_columns(tmp_path: Path) -> None:
    assert predict(table(tmp_path, "model,gpu,engine,isl,osl", "Llama-3.1-8B,H100,vllm,1000,200")).code == 1
    (row,) = rows(tmp_path / "out.csv")
    assert row["reason"].startswith("SpecInvalid: concurrency '' must be a number of users, or request_rate a rate")


def test_a_kind_without_a_latency_leaves_it_empty(tmp_path: Path) -> None:
    assert predict(table(tmp_path, f"{HEADER},request_rate", f"{GOOD},inf")).code == 0
    (after,) = rows(tmp_path / "out.csv")
    assert after["predicted_ttft_ms"] == after["predicted_ttft_ms_low"] == after["predicted_ttft_ms_high"] == ""
    assert float(after["predicted_output_tok_s_total"]) > 0


def test_what_a_model_cannot_be_asked_is_no_answer_and_says_why(tmp_path: Path) -> None:
    """A context that is too short, experts that a dense model does not have."""
    long = GOOD.replace("1000,500", "131000,500")
    assert predict(table(tmp_path, f"{HEADER},ep", f"{long},", f"{GOOD},2")).code == 1
    long_row, expert_row = rows(tmp_path / "out.csv")
    assert long_row["answered"] == expert_row["answered"] == "false"
    assert long_row["reason"].startswith(
        "ContextExceeded: isl 131000 and osl 500 are more than the 131072 tokens that "
    )
    assert long_row["reason"].endswith("meta-llama/Llama-3.3-70B-Instruct takes, prompt and answer together")
    assert expert_row["reason"].endswith("ep '2' must be 1 or empty: meta-llama/Llama-3.3-70B-Instruct has no experts")


def test_an_answer_of_one_token_has_no_time_per_token_after_the_first(tmp_path: Path) -> None:
    for rate in ("", "1", "inf"):
        file = table(tmp_path, f"{HEADER},request_rate", f"{GOOD.replace('1000,500', '1000,1')},{rate}")
        assert predict(file).code == 0
        (after,) = rows(tmp_path / "out.csv")
        assert after["predicted_tpot_ms"] == after["predicted_tpot_ms_low"] == after["predicted_tpot_ms_high"] == ""
        assert float(after["predicted_output_tok_s_total"]) > 0


def test_predictions_of_an_earlier_run_are_replaced(tmp_path: Path) -> None:
    """Its own output is a table like any other."""
    predict(table(tmp_path, HEADER, GOOD))
    first = tmp_path / "out.csv"
    old = first.read_text(encoding="utf-8").replace("true", "false")
    stale = tmp_path / "stale.csv"
    stale.write_text(old, encoding="utf-8")
    assert predict(stale, tmp_path / "again.csv").code == 0
    assert (tmp_path / "again.csv").read_bytes() == first.read_bytes()


def test_a_mark_of_a_spreadsheet_before_the_first_column_is_no_part_of_its_name(tmp_path: Path) -> None:
    file = table(tmp_path, f"\ufeff{HEADER}", GOOD)
    assert predict(file).code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: the first line must name the columns"),
        (b"\n\n", "is empty: the first line must name the columns"),
        (f"{HEADER}\n".encode(), "has no rows, only the names of columns"),
        (b"model,gpu,isl\n", "has no column engine, osl"),
        (f"{HEADER}\n{GOOD[:40]}".encode(), "row 2: 9 values are needed: is the file whole?"),
        (f"{HEADER}\n{UNKNOWN},one more\n".encode(), "row 2: 9 values are needed"),
        (f"{HEADER}\n{GOOD[:-1]}".encode(), "is the file whole?"),
        (f"{HEADER},gpu\n{UNKNOWN},H100\n".encode(), "has column gpu twice: either could be meant"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not text: give CSV in UTF-8"),
        (b"kind: InferencePool\n", "has no column"),
        (f"{HEADER}\n".encode() + b"x" * 200_000, "field larger than field limit"),
    ],
    ids=[
        "empty",
        "lines",
        "header",
        "columns",
        "half a row",
        "too much",
        "open quote",
        "twice",
        "picture",
        "yaml",
        "endless",
    ],
)
def test_what_is_no_whole_table_is_refused_and_nothing_is_written(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(content)
    ending = predict(file)
    assert words in ending.sentence
    assert str(file) in ending.sentence
    assert (ending.code, ending.out) == (2, "")
    assert left(tmp_path) == {"in.csv"}


@pytest.mark.parametrize("missing", NEEDED)
def test_a_column_that_is_needed_is_asked_for_by_name(tmp_path: Path, missing: str) -> None:
    header = ",".join(name for name in HEADER.split(",") if name != missing)
    assert f"has no column {missing}: " in predict(table(tmp_path, header)).sentence


def test_a_table_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    ending = predict(tmp_path / "none.csv")
    assert "No such file" in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    ending = predict(tmp_path)
    assert ending.sentence == f"weft: cannot read {tmp_path}: Is a directory"
    assert ending.code == 2


def test_an_output_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    file, folder = table(tmp_path, HEADER, GOOD), tmp_path / "folder"
    folder.mkdir()
    for output, words in (
        (folder, f"cannot write {folder}: it is a folder; name a file in it"),
        (tmp_path / "none" / "out.csv", "there is no such folder"),
        (file / "out.csv", "there is no such folder"),
        (Path("-"), "cannot write to -: standard output has the answer, so name a file"),
    ):
        ending = predict(file, output)
        assert words in ending.sentence
        assert (ending.code, ending.out) == (2, "")
    assert left(tmp_path) == {"in.csv", "folder"}
    assert left(folder) == set()


def test_a_table_comes_on_standard_input_too(tmp_path: Path) -> None:
    rows = table(tmp_path, HEADER, GOOD).read_bytes()
    ending = weft("predict", "--csv", "-", "-o", str(tmp_path / "out.csv"), stdin=rows)
    assert (ending.code, ending.out) == (0, f"{tmp_path / 'out.csv'}: 1 of 1 rows answered\n")
    empty = weft("predict", "--csv", "-", "-o", str(tmp_path / "out.csv"), stdin=b"")
    assert "weft: standard input is empty" in empty.sentence


def test_columns_between_tabs_are_told(tmp_path: Path) -> None:
    ending = predict(table(tmp_path, HEADER.replace(",", "\t"), GOOD.replace(",", "\t")))
    assert ending.sentence.endswith("in.csv has tabs between its columns: put commas there")


def test_a_write_that_fails_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the last moment."""
    file, output = table(tmp_path, HEADER, GOOD), tmp_path / "out.csv"
    output.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    ending = predict(file, output)
    assert f"cannot write {output}: No space left on device" in ending.sentence
    assert ending.code == 2
    assert output.read_text() == "old"
    assert left(tmp_path) == {"in.csv", "out.csv"}


def test_an_output_that_exists_is_replaced_in_one_step_even_by_its_own_table(tmp_path: Path) -> None:
    """Who has the old file open keeps reading the old file."""
    file = table(tmp_path, HEADER, GOOD)
    with file.open(encoding="utf-8") as reader:
        assert predict(file, file).code == 0
        assert reader.read() == f"{HEADER}\n{GOOD}\n"
    assert rows(file)[0]["answered"] == "true"
    assert file.stat().st_mode & 0o777 == 0o644
    assert left(tmp_path) == {"in.csv"}


def test_the_same_table_gets_the_same_answer(tmp_path: Path) -> None:
    file = table(tmp_path, HEADER, GOOD, UNKNOWN)
    for name in ("a.csv", "b.csv"):
        predict(file, tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
