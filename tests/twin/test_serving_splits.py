"""A split's requests: prefill, hand-over, decode, and who loses what when one of both engines goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.twin.serving_cases import PREFILL_SECONDS, SPEED, SPLIT, poisson, serving, trace
from weft.twin.serving.front import FrontOptions

if TYPE_CHECKING:
    from weft.twin.serving.stream import Serving

TRANSFER, STEP = 0.03, 0.0102
LINK = replace(SPEED, transfer_seconds=TRANSFER, transfer_seconds_per_token=0.001)  # a second for a prompt


def split(arrivals: list[float], front: FrontOptions | None = None, outputs: int = 100) -> Serving:
    """One engine of each role, with a slow link between them."""
    served = serving(trace(arrivals, outputs=outputs), SPLIT, front)
    served.start("p", "big-prefill", LINK, 0.0)
    served.start("d", "big-decode", LINK, 0.0)
    return served


def test_the_first_token_that_the_user_sees_is_that_of_decode() -> None:
    served = split([1.0])
    served.advance(100.0)
    answers = served.answers()
    assert PREFILL_SECONDS + 1.0 + TRANSFER + STEP == pytest.approx(answers.ttft[0], abs=1e-3)
    assert STEP == pytest.approx(answers.tpot[0])


def test_a_prefill_engine_has_load_until_its_kv_is_fetched() -> None:
    served = split([1.0])
    served.advance(1.2)
    assert (1, 1) == (served.load("p"), served.load("d"))
    assert 0.0 < served.sample("big-prefill")[2]
    served.advance(2.0)
    assert 1 == served.load("p")
    served.advance(2.0801)  # it has come at 2.08
    assert (0, 1) == (served.load("p"), served.load("d"))
    assert 0.0 == served.sample("big-prefill")[2]


def test_prompts_wait_for_a_decode_engine_and_keep_their_kv() -> None:
    served = serving(trace([1.0]), SPLIT)
    served.start("p", "big-prefill", LINK, 0.0)
    served.advance(5.0)
    assert (1, 0, 0.0) == served.sample("big-decode")
    assert 1 == served.load("p")
    served.start("d", "big-decode", LINK, 9.0)
    served.advance(100.0)
    assert 9.03 + STEP == pytest.approx(served.answers().ttft[0], abs=1e-3)


def test_kv_that_nobody_can_fetch_any_more_is_computed_again_elsewhere() -> None:
    """The prefill engine goes during the transfer."""
    served = split([1.0], FrontOptions(retries=1, retry_after_seconds=0.5))
    served.end("p", 1.5)
    served.start("p2", "big-prefill", LINK, 1.6)
    served.advance(100.0)
    assert 1 == served.retried
    assert 1.0 + PREFILL_SECONDS + 1.0 + TRANSFER + STEP == pytest.approx(served.answers().ttft[0], abs=0.03)
    assert (0, 0) == (served.load("p2"), served.load("d"))


def test_a_prefill_engine_that_had_handed_over_is_missed_by_nobody() -> None:
    served = split([1.0])
    served.end("p", 2.2)
    served.advance(100.0)
    assert served.answers().completed.all()


def test_a_decode_engine_that_dies_leaves_no_kv_behind() -> None:
    served = split([1.0, 1.1])
    served.end("d", 1.5)
    assert 0 == served.load("p")
    served.advance(100.0)
    assert not served.answers().completed.any()


def test_what_decode_cannot_hold_is_refused_and_its_kv_released() -> None:
    """The prompt fits everywhere, and not with its answer."""
    served = split([1.0], outputs=300_000)
    served.advance(5.0)
    assert (0, 0) == (served.load("p"), served.load("d"))
    assert [False] == served.answers().completed.tolist()


def test_a_client_goes_away_while_its_kv_is_under_way() -> None:
    served = split([1.0], FrontOptions(patience_seconds=0.5))
    served.advance(1.6)
    assert (0, 0) == (served.load("p"), served.load("d"))
    served.advance(100.0)
    assert [False] == served.answers().completed.tolist()


def test_a_full_prefill_engine_goes_on_when_its_kv_is_fetched() -> None:
    """Memory for one prompt at a time: each waits for the KV of the one before."""
    served = serving(trace([1.0, 1.0, 1.0]), SPLIT)
    served.start("p", "big-prefill", replace(LINK, kv_tokens=1200), 0.0)
    served.start("d", "big-decode", LINK, 0.0)
    served.advance(100.0)
    assert [1.1, 2.2, 3.3] == pytest.approx(served.answers().ttft.tolist(), abs=0.1)


def test_every_request_of_a_split_ends_once_whoever_goes() -> None:
    requests = poisson(3.0, 60.0)
    served = serving(requests, SPLIT, FrontOptions(patience_seconds=20.0, retries=2))
    for name in ("1", "2"):
        served.start(f"p{name}", "big-prefill", LINK, 0.0)
        served.start(f"d{name}", "big-decode", LINK, 0.0)
    served.kill("p1", 10.0)
    served.kill("d1", 20.0)
    served.start("p3", "big-prefill", SPEED, 25.0)
    served.start("d3", "big-decode", SPEED, 26.0)
    served.unroute("p2", 30.0)
    served.end("d2", 40.0)
    served.advance(1000.0)
    answers = served.answers()
    assert requests.arrivals.tolist() == answers.arrived.tolist()
    assert answers.completed.any()
    assert served.retried > 0
    assert [0, 0, 0] == [served.load(name) for name in ("p2", "p3", "d3")]
