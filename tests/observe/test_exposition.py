"""Lines of metrics mean what Prometheus' own parser reads in them, however they are read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.observe.samples.history import series_key
from weft.observe.sources import exposition

PIECES = [*'ab_:{}=,"n#1 \t-\\', "__", "é", "\r", 'a="b"', 'a="', '",', "name", '\\"', 'pod="p"']
# In the order in which a client library replaces them.
ESCAPES = (("\\", r"\\"), ("\n", r"\n"), ('"', r"\""))


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example('name{a="b",a="b"}')
@example('name{a="b",}')
@example('name{a="\\\\",b="\\n\\x\\""}')
@example('name{__name__="b"}')
@example('name{a:b="c"}')
@example("name")
@example("name{}")
def test_a_series_has_the_key_that_the_parser_finds(series: str) -> None:
    plain = exposition._plain(series)
    assert plain is None or [plain] == [key for key, _ in exposition._samples(f"{series} 1")]


@given(st.dictionaries(st.sampled_from(["a", "b_1", "le"]), st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_label_that_a_client_library_writes_is_plain(labels: dict[str, str]) -> None:
    written = []
    for name, value in labels.items():
        text = value
        for plain, escaped in ESCAPES:
            text = text.replace(plain, escaped)
        written.append(f'{name}="{text}"')
    assert series_key("name", labels) == exposition._plain(f"name{{{','.join(written)}}}")


@pytest.mark.parametrize("end", ["1", "1 1000", "1\t1000", "+Inf", "NaN", "-0", "0x10", "1_0", "one", "1_0 1000"])
@pytest.mark.parametrize("series", ["name", 'name{a="b"}', 'name {a="b"}', 'name{a="b c"}'])
def test_a_value_is_what_the_parser_finds(series: str, end: str) -> None:
    line = f"{series} {end}"
    assert repr(dict(exposition._samples(line))).replace("-0.0", "0.0") == repr(
        exposition.parse(f"{line}\n", ["name"])
    ).replace("-0.0", "0.0")


@pytest.mark.parametrize("end", ["1 {}", "{} 1000", "{}\t1", "{}"])
def test_a_line_with_a_number_of_hundreds_of_digits_takes_no_other_line_with_it(end: str) -> None:
    """The parser raises `OverflowError` for it, which would end the round of all engines."""
    page = f"name {end.format('9' * 400)}\nother 2\n"
    assert exposition.parse(page, ["name", "other"])[("other", ())] == 2
