"""A live page where there is a terminal, plain lines where there is none."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from e2e.demo.screen import REASONS_SHOWN, Screen, picture
from tests.demo.looks import NAMES, event, timeline

ESCAPE = "\x1b"
SHAPE = "VLLM TP1"
SHOW_CURSOR, HIDE_CURSOR = f"{ESCAPE}[?25h", f"{ESCAPE}[?25l"


@pytest.fixture(autouse=True)
def an_ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs the tests may be a dumb one, where nothing can be redrawn."""
    monkeypatch.setenv("TERM", "xterm-256color")


def console(*, terminal: bool, width: int = 140) -> Console:
    """One whose output can be read."""
    return Console(file=StringIO(), force_terminal=terminal, width=width, height=60, highlight=False)


def printed(of: Console) -> str:
    """All that was written to it."""
    assert isinstance(of.file, StringIO)
    return of.file.getvalue()


def test_without_a_terminal_it_prints_plain_lines() -> None:
    plain = console(terminal=False)
    with Screen(plain) as screen:
        screen.say("adding nodes")
        screen.show(timeline(1.0))
    lines = printed(plain).splitlines()
    assert ["adding nodes", *(f"0:01 {name} AllPlaced: 2 replicas of {name} placed" for name in NAMES)] == lines[:-1]
    assert lines[-1].startswith("0:01 GPUs 0/136  chat 20.0/s ready 0/2")
    assert ESCAPE not in printed(plain)


def test_without_a_terminal_a_reason_is_told_once_and_a_sample_every_five_seconds() -> None:
    """A log of four minutes can be read."""
    plain, run = console(terminal=False), timeline(60.0)
    with Screen(plain) as screen:
        for moment in (60.0, 61.0, 64.9, 65.0, 66.0):
            run.samples.append({**run.samples[0], "t": moment})
            screen.show(run)
        run.events.append(event(66.0, "chat"))
        screen.show(run)
    told = [line.split()[:3] for line in printed(plain).splitlines()[len(NAMES) :]]
    assert [["1:00", "GPUs", "0/136"], ["1:05", "GPUs", "0/136"], ["1:06", "chat", "AllPlaced:"]] == told


def test_on_a_terminal_it_shows_a_live_page_and_gives_the_terminal_back() -> None:
    live = console(terminal=True)
    with Screen(live) as screen:
        screen.show(timeline(125.0))
    page = printed(live)
    assert page.index(HIDE_CURSOR) < page.index("Weft demo 2:05") < page.rindex(SHOW_CURSOR)
    assert HIDE_CURSOR not in page[page.rindex(SHOW_CURSOR) :]


def test_the_live_page_has_the_fabric_the_pools_and_the_reasons() -> None:
    live = console(terminal=True)
    with Screen(live) as screen:
        screen.show(timeline(125.0))
    for words in ("GPUs 0 of 136", "rack of 18 trays", *NAMES, *(f"2 replicas of {name} placed" for name in NAMES)):
        assert words in printed(live)


@pytest.mark.parametrize(("width", "height", "wordy"), [(80, 24, False), (110, 30, True)])
def test_a_small_terminal_has_room_for_all_of_it(width: int, height: int, wordy: bool) -> None:  # noqa: FBT001
    """What does not fit is cut off at the bottom, where the reasons are."""
    run = timeline(125.0)
    run.events = [event(float(moment), NAMES[0]) for moment in range(REASONS_SHOWN)]
    run.pools = [replace(pool, subtitle=f"InferencePool · Llama-3.1-8B-Instruct · {SHAPE}") for pool in run.pools]
    small = console(terminal=False, width=width)
    small.print(picture(run, width))
    told = printed(small)
    assert len(told.splitlines()) <= height
    assert all(len(line) <= width for line in told.splitlines())
    for words in ("rack of 18 trays", "h200-7", *NAMES, "TPOT p95 / SLO", f"0:0{REASONS_SHOWN - 1}"):
        assert words in told
    assert (SHAPE in told) == wordy


def test_every_mark_of_the_fabric_is_told() -> None:
    live = console(terminal=True)
    with Screen(live) as screen:
        screen.show(timeline(125.0))
    told = printed(live)
    assert "□ free" in told
    assert "✗ node that does not answer" in told


def test_a_latency_and_its_target_have_units() -> None:
    """The measured one may be a thousand times the other."""
    live, run = console(terminal=True), timeline(125.0)
    run.samples[-1]["pools"]["chat"] |= {"ttft": 1.234, "tpot": 0.0213}
    with Screen(live) as screen:
        screen.show(run)
    assert "TTFT p95 / SLO" in printed(live)
    assert "1.23 s / 1 s" in printed(live)
    assert "21.3 ms / 40 ms" in printed(live)
    plain = console(terminal=False)
    Screen(plain).show(run)
    assert "ready 0/2 TTFT p95 1.23 s  assistant" in printed(plain)


def test_words_of_others_are_no_markup() -> None:
    """A message may hold brackets, which rich would take for styles."""
    plain = console(terminal=False)
    Screen(plain).say("0/26 nodes [NodeAffinity] [/]")
    assert printed(plain) == "0/26 nodes [NodeAffinity] [/]\n"
