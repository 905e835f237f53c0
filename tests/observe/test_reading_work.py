"""What it takes to read engines grows with what they show, and each line of samples is looked at once in a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.counting import counted
from tests.observe.pages import Clock, page, target
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource, series_of
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from weft.observe.samples.history import SeriesKey
    from weft.observe.sources.direct import Page

SERIES = series_for(EngineName.VLLM, "0.32.0")
VALUES = parse(page("vllm-0.32.0", "second"), SERIES.names)


def _calls(replicas: int, scrapes: int, function: str = "") -> int:
    """Calls of all functions, or of one, in a round over so many replicas with so many scrapes in memory."""
    clock = Clock()
    source, targets = DirectSource(clock=clock), [target(SERIES, f"u{number}") for number in range(replicas)]
    for _ in range(scrapes):
        clock.now += 1.0
        for each in targets:
            source.remember(each.uid, VALUES)
    seen, calls = counted(lambda: observe_pool(targets, source.windows()), function)
    assert seen.answered == replicas
    return calls


def test_a_line_of_samples_is_looked_at_once() -> None:
    """And once more where only the last seconds of it count, as of running, waiting and finished requests."""
    recent = [key for key in VALUES if key[0] in {SERIES.running, SERIES.waiting, SERIES.finished}]
    assert len(VALUES) + len(recent) >= _calls(1, 12, "arithmetic.py:usable") > 0


def test_work_grows_with_replicas_and_hardly_with_scrapes() -> None:
    """What has to be done for each sample is done without a call."""
    once = _calls(2, 6)
    assert 2.1 * once >= _calls(4, 6)
    assert 1.1 * once >= _calls(2, 12)


def test_scrapes_that_show_other_series_are_put_together_as_those_that_show_the_same() -> None:
    a: SeriesKey = ("a", ())
    b: SeriesKey = ("b", ())
    torn: list[Page] = [
        ((a, b), ((1.0, 1.0), (1.0, 2.0))),
        ((b,), ((2.0, 3.0),)),
        ((b, a), ((3.0, 4.0), (3.0, 5.0))),
    ]
    assert series_of(torn) == {a: ((1.0, 1.0), (3.0, 5.0)), b: ((1.0, 2.0), (2.0, 3.0), (3.0, 4.0))}
    assert series_of(torn[:1] * 2) == {a: ((1.0, 1.0),) * 2, b: ((1.0, 2.0),) * 2}
    assert {} == series_of([])


def test_a_page_as_client_libraries_write_it_is_read_without_the_parser() -> None:
    """It takes five times as long."""
    shown = "".join(f'x{{of="{number}",says="a \\"b\\" {{c}}, d=e",}} 1\n' for number in range(100))
    values, calls = counted(lambda: parse(shown, ("x",)), "parser.py:text_string_to_metric_families")
    assert (100, 0) == (len(values), calls)


def test_pages_of_one_engine_share_what_is_the_same() -> None:
    """One with twenty thousand series is kept a dozen times."""
    source = DirectSource(clock=Clock())
    for start in (0, 1):
        source.remember("u", parse("".join(f'x{{a="long",b="{i}"}} {start + i}\n' for i in range(9)), ("x",)))
    (_, (first, _)), (_, (second, _)) = source._rings["u"]
    assert first is second
    assert 1 == len({id(labels[0]) for _, labels in first})
