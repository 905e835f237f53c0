"""Traces as gateways, load generators and databases export them: read for what they are, and told where guessed."""

from __future__ import annotations

import bz2
import io
import json
import lzma
from typing import TYPE_CHECKING

import pytest

from weft.twin.traffic.files import read_trace
from weft.twin.traffic.trace import Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_735_689_600  # since 1970
UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
TWO = "arrival_s,input_tokens,output_tokens\n0,100,20\n1.5,200,30\n"


def read(content: str | bytes) -> Trace:
    return read_trace(io.BytesIO(content if isinstance(content, bytes) else content.encode()), "t.csv")


def lines(*bodies: object) -> str:
    return "\n".join(map(json.dumps, bodies))


def times(trace: Trace) -> list[float]:
    return [round(moment, 6) for moment in trace.arrivals.tolist()]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_part_columns_as_commas_do(separator: str) -> None:
    """Spreadsheets write them, also around cells in quotes, and repeat the header of a second file."""
    rows = ["arrival_s,input_tokens,output_tokens,note", '0,100,20,"a, b"', "1.5,200,30,"]
    text = "\n".join([*rows, *rows]).replace("a, b", "A").replace(",", separator).replace("A", f"a{separator} b, c")
    found = read(text)
    assert ([0.0, 0.0, 1.5, 1.5], [100, 100, 200, 200]) == (times(found), found.inputs.tolist())


@pytest.mark.parametrize(
    "head",
    [
        "created_at,prompt_tokens,completion_tokens",
        "timestamp,ISL,OSL",
        "Start Time,Input Tokens,Output Tokens",
        "time,num_prefill_tokens,num_decode_tokens",
        "REQUEST_TIME,INPUT_LEN,OUTPUT_LEN",
        "datetime,input (tokens),output (tokens)",
    ],
)
@pytest.mark.parametrize("unit", UNITS)
def test_times_since_1970_tell_their_unit_by_their_size(head: str, unit: str) -> None:
    begin, step = SECOND * UNITS[unit], UNITS[unit] // 2 or 0.5
    found = read(f"{head}\n{begin},100,20\n{begin + step},200,30\n")
    assert ([0.0, 0.5], [100, 200], [20, 30]) == (times(found), found.inputs.tolist(), found.outputs.tolist())
    time, prompt, answer = head.split(",")
    assert (f"requests are read from {time} ({unit} since 1970), {prompt} and {answer}",) == found.told


@pytest.mark.parametrize("unit", UNITS)
def test_json_lines_since_1970_are_not_taken_for_the_milliseconds_of_mooncake(unit: str) -> None:
    rows = [{"timestamp": (SECOND + at) * UNITS[unit], "input_length": 9, "output_length": 1} for at in (0, 2)]
    assert [0.0, 2.0] == times(read(lines(*rows)))


@pytest.mark.parametrize(
    ("name", "step"),
    [("time_ms", 1500), ("time (ms)", 1500), ("timestamp_us", 1_500_000), ("created_ns", 1.5e9), ("start_time_s", 1.5)],
)
def test_a_unit_in_the_name_counts(name: str, step: float) -> None:
    assert [0.0, 1.5] == times(read(f"{name},input_tokens,output_tokens\n7,100,20\n{7 + step},200,30\n"))


def test_a_name_that_says_seconds_is_not_given_milliseconds() -> None:
    with pytest.raises(TraceError, match="time_s takes a number of seconds or a date such as"):
        read(f"time_s,input_tokens,output_tokens\n{SECOND * 1000},100,20\n")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2023-11-16 23:59:59.5000000", "2023-11-17 00:00:01.0000000"),
        ("2024-05-10 00:00:00.000000+00:00", "2024-05-10 00:00:01.500000+00:00"),
        ("2024-10-27T02:59:59.5+02:00", "2024-10-27T02:00:01+01:00"),
        ("2024-10-27 02:59:59.5 UTC", "2024-10-27 03:00:01 UTC"),
        ("2024-10-27T02:59:59.5Z", "2024-10-27T03:00:01"),
    ],
    ids=["midnight", "Azure 2024", "clocks go back", "UTC", "Z"],
)
def test_dates_are_moments(first: str, second: str) -> None:
    assert [0.0, 1.5] == times(read(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{first},9,1\n{second},9,1\n"))
    assert () == read(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{first},9,1\n{second},9,1\n").told
    rows = [{"timestamp": moment, "input_length": 9, "output_length": 1} for moment in (first, second)]
    assert [0.0, 1.5] == times(read(lines(*rows)))


def test_dates_and_numbers_are_not_mixed() -> None:
    with pytest.raises(TraceError, match=r"line 3: .* created_at takes a date .*, as in the first row, not '7'"):
        read("created_at,prompt_tokens,completion_tokens\n2024-05-10,9,1\n7,9,1\n")


@pytest.mark.parametrize(
    "body",
    [
        {"created": 0, "usage": {"prompt_tokens": 100, "completion_tokens": 20}},
        {"timestamp": 0.0, "data": {"input_tokens": 100, "output_tokens": 20}},
        {"arrival_s": 0, "input_tokens": 100, "output_tokens": 20},
    ],
    ids=["OpenAI", "ServeGen", "three columns"],
)
def test_json_lines_of_others_count_seconds(body: dict[str, object]) -> None:
    time = next(iter(body))
    found = read(lines(body, {**body, time: 2.5}))
    assert ([0.0, 2.5], [100, 100], [20, 20]) == (times(found), found.inputs.tolist(), found.outputs.tolist())


def test_a_line_of_bailian_that_names_no_parent_counts_seconds_too() -> None:
    row = {"chat_id": 1, "timestamp": 61.0, "input_length": 521, "output_length": 132, "turn": 1}
    assert [0.0, 1.5] == times(read(lines(row, {**row, "timestamp": 62.5})))


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "indented"])
def test_a_detailed_result_of_a_benchmark_is_replayed(indent: int | None) -> None:
    body = {"backend": "vllm", "start_times": [100.0, 101.5], "input_lens": [10, 20], "output_lens": [4, 5]}
    found = read(json.dumps(body, indent=indent))
    assert ([0.0, 1.5], [10, 20], [4, 5]) == (times(found), found.inputs.tolist(), found.outputs.tolist())


def test_what_was_guessed_is_told() -> None:
    found = read("time,input_tokens,prompt_tokens,output_tokens\n0,100,90,20\n")
    assert found.inputs.tolist() == [100]
    assert found.told == (
        "input_tokens is taken, and not prompt_tokens",
        "requests are read from time (seconds), input_tokens and output_tokens",
    )
    assert () == read(TWO).told


@pytest.mark.parametrize(
    "text",
    [
        "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,GPT-4,1087,230\n46,,9,1\n",
        lines(
            *(
                {"timestamp": 1, "model": name, "input_length": 5, "output_length": 1, "hash_ids": []}
                for name in ("ChatGPT", "GPT-4", None)
            )
        ),
    ],
    ids=["BurstGPT", "JSON lines"],
)
def test_requests_of_several_models_are_told(text: str) -> None:
    sentence = "requests of 2 models (ChatGPT: 1, GPT-4: 1) are replayed together: for one alone, keep its rows"
    assert (sentence,) == read(text).told


def test_models_are_told_with_their_requests_the_busiest_first() -> None:
    """A name that is no text, or none, stops nothing."""
    names = ["rare", "busy", ["odd"], None, "", *["busy"] * 1199, "small", "small"]
    body = {"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": []}
    told = read(lines(*({**body, "model": name} for name in names))).told
    assert told[-1].startswith("requests of 4 models (busy: 1,200, small: 2, ['odd']: 1 and 1 more) are replayed")


@pytest.mark.parametrize("packed", [bz2.compress(TWO.encode()), lzma.compress(TWO.encode())], ids=["bzip2", "xz"])
def test_other_packings_are_read(packed: bytes) -> None:
    assert [0.0, 1.5] == times(read(packed))


def test_comments_may_stand_above_the_header() -> None:
    assert [0.0, 1.5] == times(read("# exported on Monday\n" + TWO))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"PAR1\x15\x04", "t.csv is a Parquet file: `python -c 'import pandas; pandas.read_parquet("),
        (b"\x28\xb5\x2f\xfd\x04\x00", "t.csv is compressed with zstd: unpack it with `zstd -dc FILE |"),
        (b"PK\x03\x04\x14", "t.csv is a ZIP archive: unpack it with `unzip -p FILE |"),
        (b"trace.csv\0\0\0", "t.csv is an archive: unpack it"),
        (b'{\n "a": 1}\n', "t.csv has a JSON object over several lines: write each request in one line"),
        (b'{"text": "hello", "timestamp": 100}', "t.csv lacks the tokens of a prompt (input_tokens) and the tokens of"),
        (
            b'{"input_lens": [1], "output_lens": [1]}',
            "without the list start_times: run `vllm bench serve` with --save",
        ),
        (b'{"input_lens": [1], "output_lens": [], "start_times": [1]}', "t.csv has lists of several lengths"),
        (b'arrival_s,input_tokens,output_tokens\n0,"1,024",1\n', "line 2: '0,1,024,1' is no request: input_tokens"),
    ],
)
def test_what_is_no_trace_yet_is_told_with_what_makes_one(content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(content)
    assert sentence in str(raised.value)


def log(times: Sequence[float], head: str = "Timestamp,Request tokens,Response tokens") -> Trace:
    """A row for each time, with as many prompt tokens as there are rows before it, and one."""
    return read("\n".join([head, *(f"{each:g},{row},20" for row, each in enumerate(times, 1))]))


def test_requests_of_a_log_in_whole_seconds_arrive_inside_them() -> None:
    """BurstGPT cuts its times: all requests of a second at its begin are a burst that never was."""
    whole = [second for second in range(7, 107) for _ in range(10)]
    found, again = log(whole), log(whole)
    parts = found.arrivals % 1.0
    assert found.arrivals.tolist() == again.arrivals.tolist() == sorted(found.arrivals.tolist())
    assert found.arrivals[0] == 0.0
    assert all(abs(moment - (second - 7)) < 1.0 for moment, second in zip(found.arrivals.tolist(), whole, strict=True))
    assert 0.45 < parts.mean() < 0.55
    assert list(range(1, 1001)) == found.inputs.tolist()
    assert ("times are whole seconds: the requests of each arrive at random moments inside it",) == found.told


@pytest.mark.parametrize(
    "times",
    [[5] * 1000, [*range(59)] * 2, [*range(1000)], [*[second / 2 for second in range(200)] * 2]],
    ids=["all at once", "too few to tell", "one a second", "half seconds"],
)
def test_times_that_may_be_meant_stay(times: list[float]) -> None:
    found = log(times)
    assert sorted(each - min(times) for each in times) == found.arrivals.tolist()
    assert () == found.told


def test_arrivals_that_somebody_wrote_stay_as_they_are() -> None:
    """`arrival_s` is no log: batches on the second are meant."""
    batches = [second for second in range(100) for _ in range(10)]
    assert batches == log(batches, "arrival_s,input_tokens,output_tokens").arrivals.tolist()
