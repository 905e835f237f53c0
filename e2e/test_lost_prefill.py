"""Real engines of a pair as rendered, and no cluster: a prefill engine that is lost costs no request of decode."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from e2e.chaos.eyes import Counts
from e2e.cluster.node import missing_tools
from e2e.cluster.waiting import eventually
from e2e.lone_pair import lone_engines
from e2e.team import VERSION
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.engines.vllm.environment import UNACKNOWLEDGED_SECONDS
from weft.observe.samples.history import History
from weft.observe.samples.window import Window
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from e2e.lone_pair import Engine
    from e2e.team import Json

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]  # it may build the environment

SEED = 5  # of the prompts: what two engines answer to the same one is the same, but where two tokens are as likely
PROMPT_TOKENS, ANSWER_TOKENS = 240, 40
HANDSHAKE_SECONDS = 5  # after which vLLM gives up on an engine that it has not met
PROMPTS_AFTER_THE_BREAK = 10
LEASE_SECONDS = 30  # for which a prefill engine keeps KV that nobody fetches, and nobody asks to be kept
WORK_SECONDS = 60  # for the prompt and its answer where other work keeps both cores busy, and one second else


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Engine]]:
    """One decode engine and two prefill engines, each in a box of its own."""
    if lacking := missing_tools():
        pytest.skip(f"no boxes for engines: this machine lacks {', '.join(lacking)}")
    random.seed(SEED)
    with lone_engines(("decode", "prefill-a", "prefill-b")) as started:
        yield started


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A prompt that no cache of decode knows, what an undisturbed engine answers, and where its KV is said to be."""

    prompt: str
    undisturbed: Sequence[int]
    told: Json


def computed_by(prefill: Engine) -> HandedOver:
    prompt = "".join(random.choices("abcdefghijklmnopqrstuvwxyz ", k=PROMPT_TOKENS))
    return HandedOver(prompt, prefill.answer(prompt, ANSWER_TOKENS), prefill.prefill(prompt))


def assert_fetched(decode: Engine, prompt: HandedOver) -> None:
    """All of its KV came from the other half."""
    assert_answered(decode, prompt, Counts(received=PROMPT_TOKENS))


def assert_computed_again(decode: Engine, prompt: HandedOver, noticed_seconds: float) -> None:
    """Decode misses the KV within so long, computes the prompt itself, and holds nothing of it afterwards."""
    began = time.monotonic()
    assert_answered(decode, prompt, Counts(computed=PROMPT_TOKENS, failed_transfers=1))
    took = time.monotonic() - began
    print(f"answered after {took:.1f} s")
    assert took < noticed_seconds + WORK_SECONDS
    assert decode.is_healthy


def assert_answered(decode: Engine, prompt: HandedOver, growth: Counts) -> None:
    """Every token is the right one, and decode has counted this of the prompt, which it holds no more.

    A failure may be counted twice: a heartbeat begins another handshake with an engine that is not there.
    """
    expected = decode.counts() + growth
    assert prompt.undisturbed == decode.answer(prompt.prompt, ANSWER_TOKENS, prompt.told)

    def counted() -> bool:
        now = decode.counts()
        assert (expected.received, expected.computed) == (now.received, now.computed)
        return now.failed_transfers >= expected.failed_transfers and not now.holds_requests

    eventually(counted, "decode has counted what became of the prompt")


def expired(before: str, after: str) -> float | None:
    """Prompts whose KV nobody fetched in time, as Weft reads them from two pages of a prefill engine."""
    series = series_for(EngineName.VLLM, VERSION)
    first, second = (parse(page, series.names) for page in (before, after))
    lines = {key: ((0.0, first[key]), (1.0, second[key])) for key in first.keys() & second.keys()}
    return Window.of(History(1.0, lines), series).kv_expired


def assert_expired(prefill: Engine, before: str, prompts: int) -> None:
    """The KV of so many prompts since a page, and no more, expired; all of them, once their leases have run out."""
    began = time.monotonic()
    eventually(
        lambda: expired(before, prefill.endpoint.metrics()) == prompts,
        f"KV of {prompts} prompts has expired",
        timeout_seconds=LEASE_SECONDS + WORK_SECONDS,
    )
    print(f"counted as expired after another {time.monotonic() - began:.1f} s")


def test_a_killed_prefill_engine_costs_no_request_that_decode_was_handed(engines: dict[str, Engine]) -> None:
    """One that decode had fetched from before, and one that it never met; then it fetches from a successor."""
    decode, met, unmet = engines["decode"], engines["prefill-a"], engines["prefill-b"]
    assert_fetched(decode, computed_by(met))
    of_met, of_unmet = computed_by(met), computed_by(unmet)
    met.box.kill()
    assert_computed_again(decode, of_met, noticed_seconds=0)
    met.start()  # another engine at the same address
    unmet.box.kill()
    assert_computed_again(decode, of_unmet, noticed_seconds=HANDSHAKE_SECONDS)
    met.wait_until_healthy()
    assert_fetched(decode, computed_by(met))


def test_a_break_of_the_network_cuts_decode_off_until_it_is_replaced(engines: dict[str, Engine]) -> None:
    """Each transfer fails at once and is counted, on which Weft's rule relies; one that waits for a retry would not be.

    What decode could not fetch expires at the prefill engine and is counted there, on which another rule relies; what
    it had fetched before does not.

    With NIXL 1.5: older ones drop what they knew of the other at the break, upon which vLLM 0.32 shakes hands anew.
    """
    decode, prefill = engines["decode"], engines["prefill-a"]
    assert_fetched(decode, computed_by(prefill))
    before = prefill.endpoint.metrics()
    of_cut_off = computed_by(prefill)
    prefill.box.cut_off()
    assert_computed_again(decode, of_cut_off, noticed_seconds=UNACKNOWLEDGED_SECONDS)
    prefill.box.plug_in()
    for _ in range(PROMPTS_AFTER_THE_BREAK):
        assert_computed_again(decode, computed_by(prefill), noticed_seconds=0)
    decode.replace()
    assert_fetched(decode, computed_by(prefill))
    assert_expired(prefill, before, prompts=1 + PROMPTS_AFTER_THE_BREAK)


def test_a_prefill_engine_whose_machine_is_gone_costs_no_request_either(engines: dict[str, Engine]) -> None:
    """Nobody refuses what is sent to it, so that the kernel has to give up in time."""
    decode, prefill = engines["decode"], engines["prefill-a"]
    assert_fetched(decode, computed_by(prefill))
    of_gone = computed_by(prefill)
    prefill.box.cut_off()
    assert_computed_again(decode, of_gone, noticed_seconds=UNACKNOWLEDGED_SECONDS)
