"""A break of a prefill engine's own network cuts all decode engines off from it for good: told, replaced, at peace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.holding.cluster import boards
from tests.holding.pairs import split_body
from tests.holding.test_cut_off import FETCHES, FIVE_MINUTES, PAGE, SERIES, Transferring, told
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from weft.domain.snapshot import Snapshot
    from weft.engines.terms.series import EngineSeries

LEASE_TURNS = 6  # of five seconds: vLLM's `kv_lease_duration`
EXPIRED = "vllm:nixl_num_kv_expired_reqs_total {expired}\n"


@dataclass
class Leasing(Transferring):
    """The same, and prefill engines tell how many prompts they computed, and whose KV expired a lease later."""

    computed: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    leases: list[str] = field(default_factory=list)
    ended: list[list[str]] = field(default_factory=list)
    series: EngineSeries = SERIES

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        for _ in range(turns):
            super().turn(1, seconds)
            self.ended.append(self.leases)
            self.leases = []
            for prefill in self.ended.pop(0) if len(self.ended) > LEASE_TURNS else []:
                self.expired[prefill] = self.expired.get(prefill, 0) + 1
            for prefill in self.prefill_pods():
                self._scrape_prefill(prefill)

    def snapshot(self) -> Snapshot:
        snapshot, windows = super().snapshot(), self.source.windows()
        place = ("10.0.0.1", 8000, "/metrics", ())
        ready = [EngineTarget(name, "team", name, *place, series=self.series) for name in self.prefill_pods()]
        seen = {"uid-duo-prefill": observe_pool(ready, windows)} if ready else {}
        return replace(snapshot, observations={**snapshot.observations, **seen})

    def _fetch(self, decode: str) -> None:
        super()._fetch(decode)
        prefill = self.prefill_pods()
        for turn in range(FETCHES if prefill else 0):
            one = prefill[turn % len(prefill)]
            self.computed[one] = self.computed.get(one, 0) + 1
            self.leases += [one] if (decode, one) in self.strangers else []

    def _scrape_prefill(self, prefill: str) -> None:
        ended = self.computed.get(prefill, 0)
        page = PAGE.format(done=0, failed=0, ended=ended, tokens=1000 * ended)
        page += EXPIRED.format(expired=self.expired.get(prefill, 0))
        self.source.remember(prefill, parse(page, self.series.names))


def serving(prefill: int, decode: int) -> Leasing:
    world = Leasing.on(boards(3), split_body(prefill, decode))
    world.turn(40)
    assert [len(world.prefill_pods()), len(world.decode_pods())] == [prefill, decode]
    return world


def broken(world: Leasing) -> str:
    """The first prefill engine, which everybody is cut off from after half a minute without network."""
    lost = world.prefill_pods()[0]
    world.apart |= {(decode, lost) for decode in world.decode_pods()}
    world.turn(6)
    world.apart.clear()
    return lost


def test_the_one_that_all_are_cut_off_from_is_replaced_without_a_moment_in_which_less_serves() -> None:
    world = serving(3, 2)
    decode, lost = world.decode_pods(), broken(world)
    happened: list[str] = []
    for _ in range(3 * FIVE_MINUTES):
        world.turn()
        happened += world.events("duo-prefill")
        assert world.capacity() >= 1.0
    assert lost not in world.prefill_pods()
    assert (len(world.prefill_pods()), world.decode_pods()) == (3, decode)
    assert happened.count("CutOffFromDecode") == 1
    assert told(world) == ("", "")
    failed, writes = dict(world.failed), world.writes
    world.turn(FIVE_MINUTES)
    assert (world.failed, world.writes) == (failed, writes), "every prompt's KV is fetched, and nothing is left to do"


def test_an_engine_that_does_not_say_what_expired_is_told_of_and_stays() -> None:
    world = serving(3, 2)
    world.series = replace(SERIES, expired_kv=None, other_names=())
    before, _ = world.prefill_pods(), broken(world)
    world.turn(2 * FIVE_MINUTES)
    assert told(world)[0] == "TransfersFail"
    assert world.prefill_pods() == before


def test_clients_that_go_away_between_both_halves_name_nobody() -> None:
    """Even if all of them were sent to one prefill engine, whose KV then mostly expires."""
    world = serving(3, 2)
    one, before = world.prefill_pods()[0], world.prefill_pods()
    for _ in range(3 * FIVE_MINUTES):
        world.turn()
        world.leases += [one] * 6
        assert told(world) == ("", "")
    assert world.expired[one] > world.computed[one] / 2
    assert world.prefill_pods() == before
