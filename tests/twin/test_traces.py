"""Traces: every format is read to the same columns, and what is wrong is told in a sentence."""

from __future__ import annotations

import gzip
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.twin.traffic.files import read_trace
from weft.twin.traffic.trace import JITTER_SECONDS, Trace, TraceError

PLAIN = "arrival_s,input_tokens,output_tokens\n0,4808,10\n1.25,110,8\n"
PACKED = gzip.compress(PLAIN.encode(), mtime=0)  # the same bytes in every process that collects tests
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:05.2299600,110,8""".replace("\n", "\r\n")
MOONCAKE = "\n".join(
    json.dumps({"timestamp": moment, "input_length": tokens, "output_length": answer, "hash_ids": blocks})
    for moment, tokens, answer, blocks in ((27_000, 4808, 10, [0, 1]), (28_250, 110, 8, [0]))
)


def read(text: str | bytes) -> Trace:
    content = text if isinstance(text, bytes) else text.encode()
    return read_trace(io.BytesIO(content), "t.csv")


def trace(count: int, seconds: float = 3600.0, seed: int = 1) -> Trace:
    random = np.random.default_rng(seed)
    arrivals = np.sort(random.uniform(0.0, seconds, count))
    blocks = tuple((0, 7 * number + 1, 7 * number + 2) for number in range(count))
    lengths = random.integers(1, 5000, count, dtype=np.int32)
    return Trace(arrivals, lengths, lengths, blocks)


@pytest.mark.parametrize("text", [AZURE, PLAIN, MOONCAKE, "\n\n" + PLAIN, PACKED, PLAIN.encode("utf-16")])
def test_every_format_is_read_to_the_same_columns(text: str | bytes) -> None:
    found = read(text)
    assert found.arrivals.tolist() == [0.0, 1.25]
    assert found.inputs.tolist() == [4808, 110]
    assert found.outputs.tolist() == [10, 8]


def test_blocks_are_those_of_mooncake() -> None:
    assert read(MOONCAKE).blocks == ((0, 1), (0,))
    assert read(PLAIN).blocks == ()


def test_a_prompt_without_hashes_takes_none_from_the_others() -> None:
    alone = json.dumps({"timestamp": 28_500, "input_length": 40, "output_length": 8})
    empty = json.dumps({"timestamp": 28_500, "input_length": 40, "output_length": 8, "hash_ids": []})
    assert read(f"{MOONCAKE}\n{alone}\n{empty}").blocks == ((0, 1), (0,), (), ())


@pytest.mark.parametrize(
    ("without", "told"),
    [
        (0, ()),
        (1, ("1 of 3 requests lacks hash_ids: its prompt counts as new text",)),
        (2, ("2 of 4 requests lack hash_ids: their prompts count as new text",)),
    ],
)
def test_prompts_without_hashes_are_told_where_others_have_some(without: int, told: tuple[str, ...]) -> None:
    alone = json.dumps({"timestamp": 28_500, "input_length": 40, "output_length": 8})
    assert told == read("\n".join([MOONCAKE, *[alone] * without])).told
    assert () == read("\n".join([MOONCAKE.replace("[0, 1]", "[]").replace("[0]", "[]"), *[alone] * without])).told


def test_a_number_without_end_is_cut_in_the_sentence() -> None:
    with pytest.raises(TraceError) as raised:
        read(f"arrival_s,input_tokens,output_tokens\n1,1,{'9' * 4000}\n")
    assert len(str(raised.value)) < 200


def test_other_columns_and_another_order_of_columns_do_no_harm() -> None:
    assert read("output_tokens,user,arrival_s,input_tokens\n8,x,1.5,100\n").outputs.tolist() == [8]


def test_a_comma_in_quotes_is_a_part_of_its_cell() -> None:
    text = 'arrival_s,note,input_tokens,output_tokens\n0.5,"a, b",100,20\n'
    assert read(text).inputs.tolist() == [100]
    assert read(text).outputs.tolist() == [20]


def test_whole_numbers_may_be_written_as_tables_write_them() -> None:
    assert read("arrival_s,input_tokens,output_tokens\n0,1000.0,20.0\n").inputs.tolist() == [1000]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "t.csv is empty"),
        ("\n \n", "t.csv is empty"),
        ("arrival_s,input_tokens,output_tokens\n", "t.csv has no requests"),
        (
            "arrival_s,input_tokens\n1,2\n",
            "t.csv lacks the tokens of an answer (output_tokens): it has arrival_s, input_tokens",
        ),
        ("TIMESTAMP,ContextTokens\n1,2\n", "t.csv lacks the tokens of an answer (output_tokens): it has TIMESTAMP"),
        ("a,b\n1,2\n", "t.csv has no header line with the columns arrival_s, input_tokens, output_tokens"),
        (
            "arrival_s,input_tokens,output_tokens\n1700000000,1,1\n",
            "1700000000 s, more than a year after the beginning",
        ),
        ("arrival_s,input_tokens,output_tokens\n1700000000123,1,1\n", "for times since 1970 name the column timestamp"),
        ("arrival_s,input_tokens,output_tokens,input_tokens\n0,1,1,2\n", "has the column input_tokens twice"),
        ("arrival_s,input_tokens,output_tokens\n0,1,99999999999\n", "at most 2147483647 of input or of output"),
        (
            "arrival_s,input_tokens,output_tokens\n0,1.5,1\n",
            "is no request: input_tokens takes a whole number, not '1.5'",
        ),
        ("arrival_s,input_tokens,output_tokens\n-1,1,1\n", "line 2: a request arrives at -1 s, but times count from 0"),
        ("arrival_s,input_tokens,output_tokens\nnan,1,1\n", "line 2: a request arrives at nan s, which is no time"),
        (
            "arrival_s,input_tokens,output_tokens\n1,0,1\n2,1,0\n",
            "t.csv has no requests: no row has tokens of both, a prompt and",
        ),
        ("arrival_s,input_tokens,output_tokens\n1,-3,1\n", "line 2: -3 tokens: write 0 or more"),
        ("timestamp,model\n1,2\n", "t.csv lacks the tokens of a prompt (input_tokens) and the"),
        ("Timestamp,Request tokens,Total tokens\n1,2,3\n", "t.csv lacks the tokens of an answer (output"),
        ("Timestamp,Request tokens,Response tokens\nnoon,2,3\n", "Timestamp takes a number of seconds or a date such"),
        ("Timestamp,Request tokens,Response tokens\n4e7,2,3\n0,2,3\n", "line 3: a request arrives 40000000 s from"),
        ("Timestamp,Request tokens,Response tokens\n3e7,2,3\n6e7,2,3\n0,2,3\n", "t.csv lasts 60000000 s, which is"),
        ('[{"timestamp": 1, "input_length": 5, "output_length": 1}]', "t.csv is one JSON list: write its requests"),
        (
            '{"timestamp": 1, "input_length": 100, "output_length": 1, "hash_ids": [1, 2, 3]}',
            "line 1: 3 hash_ids for 100 tokens: each stands for 512",
        ),
        ("arrival_s,input_tokens,output_tokens\n1,1,9999999999\n", "line 2: 9999999999 tokens"),
        ("arrival_s,input_tokens,output_tokens\n1,1,1e30\n", "line 2: 1.00e+30 tokens: a request has at most"),
        ("arrival_s,input_tokens,output_tokens\n1,-1e30,1\n", "line 2: -1.00e+30 tokens: write 0 or more"),
        ("arrival_s,input_tokens,output_tokens\n1,x,1\n", "'1,x,1' is no request: input_tokens takes a whole number"),
        (
            "arrival_s,input_tokens,output_tokens\n2026-05-01T12:00:00Z,1,1\n",
            "arrival_s takes seconds; for dates, and for",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n5/1/2026 1:00 PM,1,1\n",
            "or a date such as 2026-05-01 12:00:00.5, not",
        ),
        (
            "arrival_s;input_tokens;output_tokens\n0,5;1;1\n",
            "not '0,5'; write numbers with a decimal point, and none with a comma",
        ),
        (
            "arrival_s;input_tokens;output_tokens\n0;1.024,0;1\n",
            "input_tokens takes a whole number, not '1.024,0'; write",
        ),
        ("arrival_s,input_tokens,output_tokens\n1,2\n", "line 2: '1,2' is no request: it has no column output_tokens"),
        (
            '{"timestamp": 1, "input_length": 5}',
            "line 1 lacks output_length: each has timestamp (in milliseconds), input",
        ),
        ('{"timestamp": 1, "input_length": 5.5, "output_length": 1}', "input_length takes a whole number, not '5.5'"),
        ('{"timestamp": 1, "input_length": 5, "output_length": []}', "output_length takes a whole number, not '[]'"),
        ("Timestamp,Request tokens,Response tokens\n-1,2,3\n", "takes a number of seconds, 0 or more, as in the first"),
        ('{"timestamp": -5, "input_length": 5, "output_length": 1}', "takes a number of milliseconds, 0 or more"),
        ('{"timestamp": "noon", "input_length": 5, "output_length": 1}', "timestamp takes a number of milliseconds"),
        ('{"timestamp": null, "input_length": 5, "output_length": 1}', "timestamp takes a number of milliseconds"),
        (
            '{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": {"7": 1}}',
            "hash_ids takes a list of whole numbers, not",
        ),
        ("{ nothing", "line 1: '{ nothing' is no request: each line is a JSON object, and each has timestamp"),
        (f'{{"timestamp": 1{"0" * 400}, "input_length": 5, "output_length": 1}}', "timestamp takes a number"),
        (f'{{"a": {"[" * 100_000}', "is no request: each line is a JSON object"),
        (b"\xff\x00\x01", "t.csv is not text"),
        (b"\xff\xfe\x00", "t.csv is not text"),
        (b"\x1f\x8b\x08\x00broken", "t.csv cannot be read"),
        (PACKED[:-9], "t.csv cannot be read"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str | bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=r"^t\.csv") as raised:
        read(text)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "head", ["arrived_at,num_prefill_tokens,num_decode_tokens", "request_id,arrival_timestamp,prompt_size,token_size"]
)
def test_what_other_simulators_replay_is_read_from_its_first_second_on(head: str) -> None:
    number = "7," if head.startswith("request_id") else ""
    trace = read(f"{head}\n{number}3.5,374,44\n{number}4.25,396,109\n")
    assert ([0.0, 0.75], [374, 396], [44, 109]) == (
        trace.arrivals.tolist(),
        trace.inputs.tolist(),
        trace.outputs.tolist(),
    )


@pytest.mark.parametrize(
    "head",
    [
        "Timestamp,Request tokens,Response tokens",
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        "arrival_timestamp,prompt_size,token_size",
    ],
)
def test_seconds_since_1970_are_as_good_as_others_where_the_first_request_is_the_beginning(head: str) -> None:
    assert read(f"{head}\n1715299200.5,9,1\n1715299202,9,1\n").arrivals.tolist() == [0.0, 1.5]


BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118.5,GPT-4,417,276,693,API log
"""


def test_burstgpt_begins_with_its_first_request() -> None:
    found = read(BURST)
    assert found.arrivals.tolist() == [0.0, 113.5]
    assert found.inputs.tolist() == [472, 417]
    assert found.outputs.tolist() == [18, 276]


@pytest.mark.parametrize(
    "text",
    [
        BURST,
        "arrival_s,input_tokens,output_tokens\n0,9,1\n1,9,0\n2,9,1\n",
        "arrival_s,input_tokens,output_tokens\n0,0,1\n1,9,1\n2,9,1\n",
        "arrival_s,input_tokens,output_tokens\n0,9,1\n1,9,\n2,9,1\n",
        "\n".join(
            json.dumps({"timestamp": moment, "input_length": 9, "output_length": answer})
            for moment, answer in ((0, 1), (1, 0), (2, None), (3, 2.0))
        ),
        "arrival_s,input_tokens,output_tokens\n0,9.00,1\n1,9.00,nan\n2,9e0,1.000000e+00\n",
        "\n".join(
            json.dumps({"timestamp": moment, "input_length": 9, "output_length": answer})
            for moment, answer in ((0, 1), (1, math.nan), (2, 2.0))
        ),
    ],
    ids=["BurstGPT", "no answer", "no prompt", "a gap", "JSON lines", "NumPy's numbers", "Python's NaN"],
)
def test_rows_without_a_prompt_or_an_answer_are_counted_and_left_out(text: str) -> None:
    rows = len(text.splitlines()) - (not text.startswith("{"))
    assert (2, rows - 2) == (len(read(text)), read(text).left_out)


def test_time_begins_with_the_first_request_that_is_left() -> None:
    found = read("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,9,0\n2024-05-10 00:00:07,9,1\n")
    assert ([0.0], 1) == (found.arrivals.tolist(), found.left_out)


@pytest.mark.parametrize(
    "times",
    [
        ("5", "4", "4.5"),
        ("2024-05-10 00:00:05", "2024-05-10 02:00:04+02:00", "2024-05-09T22:00:04.500000001-02:00"),
    ],
    ids=["seconds", "dates of several zones"],
)
def test_a_log_of_ended_requests_is_put_in_order_of_their_arrivals(times: tuple[str, ...]) -> None:
    head = "arrival_s,input_tokens,output_tokens" if times[0] == "5" else "TIMESTAMP,ContextTokens,GeneratedTokens"
    rows = "".join(f"{moment},{place},1\n" for place, moment in enumerate(times, start=1))
    found = read(f"{head}\n{rows}")
    assert np.diff(found.arrivals).tolist() == [0.5, 0.5]
    assert found.inputs.tolist() == [2, 3, 1]
    assert 2 == found.reordered


def test_requests_of_one_moment_stay_in_their_order_with_their_hashes() -> None:
    rows = ((2, [5]), (1, [6]), (1, [7]))
    text = "\n".join(
        json.dumps({"timestamp": moment, "input_length": 9, "output_length": 1, "hash_ids": blocks})
        for moment, blocks in rows
    )
    assert read(text).blocks == ((6,), (7,), (5,))


def test_bailian_counts_seconds_and_hashes_16_tokens() -> None:
    """Its rows look like Mooncake's, which count milliseconds and hash 512 tokens."""
    rows = [
        {"chat_id": at, "parent_chat_id": -1, "timestamp": at * 1.5, "input_length": 100, "output_length": 5}
        for at in range(3)
    ]
    found = read("\n".join(json.dumps({**row, "hash_ids": [1, 2, 3, 4, 5, 6, 7]}) for row in rows))
    assert [0.0, 1.5, 3.0] == found.arrivals.tolist()
    assert (16, 7) == (found.block_tokens, len(found.blocks[0]))


def test_parts_and_copies_know_what_their_file_left_out() -> None:
    assert 1 == read(BURST).part(0.0, 9.0).left_out == read(BURST).scaled(3.0).left_out


def test_only_a_time_that_is_none_is_said_to_be_none() -> None:
    with pytest.raises(TraceError, match=r"'1,1\.5,1' is no request: input_tokens takes a whole number, not '1\.5'$"):
        read("arrival_s,input_tokens,output_tokens\n1,1.5,1\n")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_a_sentence(content: bytes) -> None:
    try:
        found = len(read(content))
    except TraceError as error:
        found = len(str(error).removeprefix("t.csv"))
    assert found > 0


@given(factor=st.floats(0.1, 6.0), seed=st.integers(0, 10))
def test_a_scaled_trace_has_as_many_requests_at_about_the_same_times(factor: float, seed: int) -> None:
    whole = trace(2000)
    found = whole.scaled(factor, seed)
    assert len(found) == pytest.approx(2000 * factor, abs=4 * np.sqrt(2000 * factor) + 1)
    assert np.all(np.diff(found.arrivals) >= 0)
    noise = 2.5 / np.sqrt(len(found))
    for share in (0.25, 0.5, 0.75):
        before = np.searchsorted(whole.arrivals, share * 3600.0) / len(whole)
        assert np.searchsorted(found.arrivals, share * 3600.0) / len(found) == pytest.approx(before, abs=noise)


def test_copies_come_a_few_seconds_apart_and_share_only_the_first_block() -> None:
    one = Trace(np.array([100.0, 400.0]), np.array([9, 9], np.int32), np.array([1, 1], np.int32), ((0, 1), (0, 2)))
    found = one.scaled(3.0)
    assert 6 == len(found) == len(set(found.blocks))
    assert {each[0] for each in found.blocks} == {0}
    assert all(min(abs(moment - 100.0), abs(moment - 400.0)) <= JITTER_SECONDS for moment in found.arrivals)


def test_the_same_seed_scales_the_same_way() -> None:
    assert trace(50).scaled(1.5, 3).arrivals.tolist() == trace(50).scaled(1.5, 3).arrivals.tolist()
    assert trace(50).scaled(1.5, 3).arrivals.tolist() != trace(50).scaled(1.5, 4).arrivals.tolist()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_scaled_by_a_positive_number(factor: float) -> None:
    with pytest.raises(TraceError, match="give a number above 0"):
        trace(10).scaled(factor)


def test_a_trace_is_not_scaled_to_more_requests_than_memory_has_room_for() -> None:
    with pytest.raises(TraceError, match="1e\\+09 requests are more than the 50,000,000"):
        trace(1000).scaled(1e6)


def test_a_part_starts_its_clock_anew() -> None:
    found = trace(1000).part(600.0, 1200.0)
    assert 0.0 <= found.arrivals[0] <= found.arrivals[-1] < 600.0
    assert len(found) == len(found.blocks) == int(np.sum((trace(1000).arrivals >= 600) & (trace(1000).arrivals < 1200)))


def test_whole_numbers_of_json_may_stand_between_quotes() -> None:
    """As exporters write what may have 64 bits."""
    found = read('{"timestamp": 0, "input_length": "308", "output_length": "131"}\n')
    assert (found.inputs.tolist(), found.outputs.tolist()) == ([308], [131])
