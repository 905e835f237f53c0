"""A network break cuts a decode engine off from a prefill engine for good: told, replaced, and all is as before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.holding.cluster import boards
from tests.holding.pairs import HALVES, Pair, split_body
from weft.domain import labels
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from weft.domain.snapshot import Snapshot

SERIES = series_for(EngineName.VLLM, "0.31.0")
TURN_SECONDS = 5.0
FETCHES = 4  # of each decode engine, in a turn
FIVE_MINUTES = 60  # turns
TYPE = "TransfersFailing"
PAGE = """
vllm:num_requests_running 3
vllm:num_requests_waiting 0
vllm:num_requests_waiting_by_reason{{reason="capacity"}} 0
vllm:kv_cache_usage_perc 0.2
vllm:request_success_total {ended}
vllm:request_prompt_tokens_sum {tokens}
vllm:request_prompt_tokens_count {ended}
vllm:time_to_first_token_seconds_sum {ended}
vllm:time_to_first_token_seconds_count {ended}
vllm:nixl_xfer_time_seconds_sum {done}
vllm:nixl_xfer_time_seconds_count {done}
vllm:nixl_num_failed_transfers_total {failed}
"""


@dataclass
class Transferring(Pair):
    """A split whose decode engines fetch from the prefill engines that routers may choose, one after the other.

    Two engines of `apart` reach each other no more; those that tried then have no way back to each other.
    """

    apart: set[tuple[str, str]] = field(default_factory=set)
    strangers: set[tuple[str, str]] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    source: DirectSource = field(default_factory=DirectSource)

    def __post_init__(self) -> None:
        self.source = DirectSource(clock=lambda: self.cluster.now)

    def turn(self, turns: int = 1, seconds: float = TURN_SECONDS) -> None:
        for _ in range(turns):
            super().turn(1, seconds)
            for decode in self.decode_pods():
                self._fetch(decode)
                self._scrape(decode)

    def snapshot(self) -> Snapshot:
        place = ("10.0.0.1", 8000, "/metrics", ())
        ready = [EngineTarget(name, "team", name, *place, series=SERIES) for name in self.decode_pods()]
        seen = observe_pool(ready, self.source.windows())
        return replace(super().snapshot(), observations={"uid-duo-decode": seen} if ready else {})

    def decode_pods(self) -> list[str]:
        return [name for pair in sorted(self.pairs()) for name in self.engines("decode", pair)]

    def prefill_pods(self) -> list[str]:
        return [name for pair in sorted(self.pairs()) for name in self.engines("prefill", pair)]

    def _fetch(self, decode: str) -> None:
        prefill = self.prefill_pods()
        for turn in range(FETCHES if prefill else 0):
            both = decode, prefill[turn % len(prefill)]
            if both in self.apart:
                self.strangers.add(both)
            ended = self.failed if both in self.strangers else self.done
            ended[decode] = ended.get(decode, 0) + 1

    def _scrape(self, decode: str) -> None:
        done, failed = self.done.get(decode, 0), self.failed.get(decode, 0)
        page = PAGE.format(done=done, failed=failed, ended=done + failed, tokens=1000 * (done + failed))
        self.source.remember(decode, parse(page, SERIES.names))


def serving(prefill: int, decode: int) -> Transferring:
    world = Transferring.on(boards(2), split_body(prefill, decode))
    world.turn(40)
    assert [len(world.prefill_pods()), len(world.decode_pods())] == [prefill, decode]
    return world


def told(world: Transferring) -> tuple[str, str]:
    """(reason, message) of the condition, of the split; empty where there is none."""
    found = [each for each in world.split["status"]["conditions"] if each["type"] == TYPE]
    assert len(found) == (TYPE in world.conditions_of("duo-decode"))
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def test_a_break_that_cuts_one_pair_off_is_told_and_mended_without_a_moment_in_which_less_serves() -> None:
    world = serving(2, 3)
    lost, prefill = world.decode_pods()[0], world.prefill_pods()[0]
    world.apart.add((lost, prefill))
    world.turn(6)
    world.apart.clear()
    world.turn(FIVE_MINUTES - 8)
    assert told(world) == ("", "")
    happened: list[str] = []
    for _ in range(6):
        world.turn()
        happened += world.events("duo-decode")
    (reason, message), replica = told(world), world.cluster.pods[lost]["metadata"]["labels"][labels.REPLICA]
    assert reason == "CutOffFromPrefill"
    assert message.startswith(
        f"Decode pool: replica {replica} has failed for 5 min to fetch KV as its siblings do, and"
    )
    assert message.endswith(", and is replaced")
    assert happened == ["CutOffFromPrefill"]
    for _ in range(2 * FIVE_MINUTES):
        world.turn()
        assert world.capacity() >= 1.0
    assert lost not in world.cluster.pods
    assert (len(world.prefill_pods()), len(world.decode_pods())) == (2, 3)
    assert told(world) == ("", "")
    failed, writes = dict(world.failed), world.writes
    world.turn(FIVE_MINUTES)
    assert (world.failed, world.writes) == (failed, writes), "every prompt's KV is fetched, and nothing is left to do"


def test_a_prefill_engine_that_ends_names_nobody() -> None:
    """Its KV is lost for whoever had met it, until routers choose it no more."""
    world = serving(2, 3)
    lost, before = world.prefill_pods()[0], world.decode_pods()
    world.apart |= {(decode, lost) for decode in before[:1]}
    world.turn(6)
    del world.cluster.pods[lost]
    for _ in range(2 * FIVE_MINUTES):
        world.turn()
        assert told(world) == ("", "")
    assert world.decode_pods() == before
    assert lost not in world.prefill_pods()
    assert sum(world.failed.values()) > 0


def test_a_break_that_cuts_all_of_them_off_from_one_is_told_and_nobody_goes() -> None:
    """Whose engine it is nobody can tell, and another decode replica may be cut off in its turn."""
    world = serving(2, 3)
    before = {half: list(world.engines(half, next(iter(world.pairs())))) for half in HALVES}
    world.apart |= {(decode, before["prefill"][0]) for decode in before["decode"]}
    world.turn(6)
    world.apart.clear()
    world.turn(2 * FIVE_MINUTES)
    assert told(world)[0] == "TransfersFail"
    assert before == {half: list(world.engines(half, next(iter(world.pairs())))) for half in HALVES}
