"""Rows of a CSV as exports and shells leave them: over several lines, and with the headers of joined files."""

from __future__ import annotations

import gzip
import io

import pytest

from weft.twin.traffic.files import read_trace
from weft.twin.traffic.trace import Trace, TraceError

HEAD = "arrival_s,prompt,input_tokens,output_tokens\n"


def read(content: str | bytes) -> Trace:
    return read_trace(io.BytesIO(content if isinstance(content, bytes) else content.encode()), "t.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["Unix", "Windows"])
def test_a_cell_in_quotes_may_go_on_for_lines(end: str) -> None:
    """Prompts of people have line breaks, commas and quotes."""
    text = HEAD + '0,"Dear all,\n\nas ""agreed"", 7,8,9\n",100,20\n1.5,plain,200,30\n'
    found = read(text.replace("\n", end))
    assert [0.0, 1.5] == found.arrivals.tolist()
    assert [100, 200] == found.inputs.tolist()


def test_what_is_wrong_below_a_cell_of_several_lines_has_the_number_of_its_line() -> None:
    with pytest.raises(TraceError, match=r"^t\.csv, line 5: .* input_tokens takes a whole number, not 'many'$"):
        read(HEAD + '0,"one\ntwo\nthree",100,20\n1,plain,many,30\n')
    with pytest.raises(TraceError, match=r"^t\.csv, line 2: .* input_tokens takes a whole number, not 'many'$"):
        read(HEAD + '0,"one\ntwo",many,20\n1,plain,200,30\n')


def test_a_quote_that_is_never_closed_swallows_no_requests() -> None:
    with pytest.raises(TraceError, match=r"^t\.csv, line 3: the quotes from there on cannot be read: "):
        read(HEAD + '0,plain,100,20\n1,"open,100,20\n2,plain,100,20\n')


@pytest.mark.parametrize("quoted", [False, True], ids=["bare", "in quotes"])
def test_files_that_were_joined_are_read_as_one(quoted: bool) -> None:  # noqa: FBT001 - a case
    """`cat monday.csv.gz tuesday.csv.gz`, each with its header line."""
    head = '"arrival_s","input_tokens","output_tokens"' if quoted else "arrival_s,input_tokens,output_tokens"
    monday, tuesday = f"{head}\n0,100,20\n10,100,20\n", f"{head}\r\n20,200,30\n"
    for content in (monday + tuesday, gzip.compress(monday.encode()) + gzip.compress(tuesday.encode())):
        found = read(content)
        assert [0.0, 10.0, 20.0] == found.arrivals.tolist()
        assert [100, 100, 200] == found.inputs.tolist()


def test_a_second_file_with_other_columns_is_no_row() -> None:
    with pytest.raises(TraceError, match=r"^t\.csv, line 3: 'arrival_s,output_tokens,input_tokens' is no request: "):
        read("arrival_s,input_tokens,output_tokens\n0,100,20\narrival_s,output_tokens,input_tokens\n1,20,100\n")
