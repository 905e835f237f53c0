"""Routers before played engines: what engines know of prompts, what clients send, and how a router is started here."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from bench import routers
from bench.__main__ import command
from bench.routers_bench import table
from bench.routers_bench.engine import Clock, PlayedEngine, PrefixCache
from bench.routers_bench.running import Case, Conditions, Figures, drive
from bench.routers_bench.serving import body_of, served, tokens_of
from bench.routers_bench.starting import Router, Setting, on_loopback, sglang_router, vllm_router, with_setting
from bench.routers_bench.traffic import TRAFFICS, Prompt, Traffic

ROUTER = vllm_router(Path("vllm-router"))
QUICK = Conditions(seconds=4.0, busy=0.3, engines=2, output_tokens=6, pace=0.1)
FIGURES = Figures(17, 1.25, 0.12, 0.19, 0.6, 0.25, 800, 0, 0.01)
SEQUENCE = tuple(range(64))


def test_an_engine_knows_whole_blocks_from_the_start_of_a_prompt_on() -> None:
    cache = PrefixCache(100)
    assert cache.known(SEQUENCE) == 0
    cache.keep(SEQUENCE)
    assert cache.known((*SEQUENCE[:40], *range(1000, 1040))) == 32
    assert cache.known(SEQUENCE[16:]) == 0  # the same tokens, but not what comes before them


def test_the_last_token_of_a_prompt_is_computed_even_if_all_is_known() -> None:
    cache = PrefixCache(100)
    cache.keep(SEQUENCE)
    assert cache.known(SEQUENCE) == 63


def test_a_full_cache_lets_go_what_was_used_longest_ago_and_of_one_prompt_its_end() -> None:
    cache, other = PrefixCache(6), tuple(range(1000, 1064))
    cache.keep(SEQUENCE)
    cache.keep(other)
    assert (cache.known((*SEQUENCE, 1)), cache.known((*other, 1))) == (32, 64)


@pytest.mark.parametrize("traffic", TRAFFICS.values(), ids=TRAFFICS)
def test_the_load_of_a_traffic_is_what_an_engine_that_knows_all_computes(traffic: Traffic) -> None:
    cache, sessions = PrefixCache(10**6), traffic.sessions(Random(1))
    for session in itertools.islice(sessions, 1000):  # until every prefix has come
        _computed(cache, session)
    found = [_computed(cache, session) for session in itertools.islice(sessions, 3)]
    assert [traffic.new_tokens] * 3 == found
    assert traffic.turns == len(next(sessions))


def _computed(cache: PrefixCache, session: tuple[Prompt, ...]) -> int:
    computed = 0
    for prompt in session:
        tokens = (*prompt.system, *prompt.user)
        computed += len(tokens) - cache.known(tokens)
        cache.keep(tokens)
    return computed


@pytest.mark.parametrize("traffic", TRAFFICS.values(), ids=TRAFFICS)
def test_a_seed_gives_the_same_sessions_again_and_another_one_others(traffic: Traffic) -> None:
    first, again, other = (list(itertools.islice(traffic.sessions(Random(seed)), 5)) for seed in (1, 1, 2))
    assert first == again != other


def test_an_engine_reads_from_a_request_the_tokens_that_the_client_meant() -> None:
    assert tokens_of(body_of(Prompt((1, 2), (3,)))) == (1, 2, 3)
    assert tokens_of(body_of(Prompt((), (3,)))) == (3,)


@pytest.mark.parametrize("router", [ROUTER, sglang_router(Path("sglang-router"))], ids=["vLLM", "SGLang"])
def test_a_router_gets_wefts_options_on_loopback_in_place_of_discovery(router: Router) -> None:
    rendered = router.rendered()
    said = on_loopback(rendered, (12_001, 12_002), ["http://127.0.0.1:1", "http://127.0.0.1:2"])
    assert ("--worker-urls", "http://127.0.0.1:1", "http://127.0.0.1:2") == said[-3:]
    places = "--host 127.0.0.1 --port 12001 --prometheus-host 127.0.0.1 --prometheus-port 12002"
    assert places in " ".join(said)
    assert "0.0.0.0" not in said
    assert not any("discovery" in word or "selector" in word for word in said)
    kept = {word for word in rendered if word.startswith(("--retry", "--cb", "--health", "--shutdown", "--balance"))}
    assert kept < set(said)
    assert "--balance-abs-threshold" in kept


def test_a_setting_replaces_what_weft_says_and_adds_what_it_does_not() -> None:
    rendered = ("--port", "1", "--balance-abs-threshold", "16", "--selector", "a=1", "b=2")
    assert with_setting(rendered, Setting()) == rendered
    said = " ".join(with_setting(rendered, Setting(threshold=4, relative=1.0, policy="power_of_two")))
    assert said == (
        "--port 1 --selector a=1 b=2 --balance-abs-threshold 4 --balance-rel-threshold 1.0 --policy power_of_two"
    )


async def test_clients_that_ask_engines_themselves_get_the_hits_of_their_prefix() -> None:
    """No router: the engines are the fronts, of which clients choose one at random."""
    found = await _driven("one prefix", fronts=2)
    assert found.hits == pytest.approx(0.6)
    assert found.failed == 0
    assert 0.2 < found.to_last < 0.8


async def test_an_engine_that_joins_and_gets_nothing_has_no_part_of_the_requests() -> None:
    """The first engine takes the news that another one is there, and does nothing with it."""
    found = await _driven("a replica joins", fronts=1)
    assert found.to_last == 0
    assert found.most_more > 0


async def _driven(traffic: str, fronts: int) -> Figures:
    case, clock = Case(ROUTER, TRAFFICS[traffic], Setting(), seed=3), Clock(QUICK.pace)
    engines = [PlayedEngine(clock, PrefixCache(4000), QUICK.output_tokens) for _ in range(QUICK.engines)]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(each)) for each in engines]
        return await drive(case, QUICK, urls[:fronts], dict(zip(urls, engines, strict=True)))


def test_a_line_has_the_median_of_its_seeds_and_their_extremes() -> None:
    case = Case(ROUTER, TRAFFICS["one prefix"], Setting(threshold=64), seed=0)
    other, third = (Figures(most, 1.25, 0.12, 0.19, 0.6, 0.25, 800, 1, 0.01) for most in (65, 18))
    assert table.line(case, [0, 1, 2], [FIGURES, other, third]) == (
        "| vLLM | one prefix | 64 | 18 (17 to 65) | 1.2 | 0.12 | 0.19 | 60 % | 25 % | 800 | 2 | 0.01 | 0, 1, 2 |"
    )
    assert table.head().splitlines()[0].count("|") == table.line(case, [0], [FIGURES]).count("|")


def test_lines_join_the_seeds_of_each_setting() -> None:
    first, second = Setting(), Setting(policy="power_of_two")
    cases = [Case(ROUTER, TRAFFICS["one prefix"], each, seed) for each in (first, second) for seed in (0, 1)]
    told = routers.lines(dict.fromkeys(cases, FIGURES))
    assert ["16 (Weft's)", "power_of_two"] == [line.split(" | ")[2] for line in told]
    assert all(line.endswith("| 0, 1 |") for line in told)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name --vllm-router, --sglang-router or both"),
        (["--vllm-router", "/nowhere/vllm-router"], "/nowhere/vllm-router is no file: name the router's program"),
        (["--engines", "1"], "1 is no number of at least 2"),
        (["--pace", "0"], "0 is no number above 0"),
        (["--threshold", "-1"], "-1 is no whole number of at least 0"),
        (["--seeds", "0"], "0 is no number of at least 1"),
    ],
    ids=["no router", "no file", "one engine", "no pace", "below 0", "no seed"],
)
def test_what_cannot_be_run_is_said_first(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(["routers", *arguments])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_router_that_ends_at_once_is_told_with_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "vllm-router"
    program.write_text("#!/bin/sh\necho no such option >&2\nexit 2\n")
    program.chmod(0o755)
    assert command(["routers", "--vllm-router", str(program), "--traffic", "one prefix", "--seeds", "1"]) == 1
    told = capsys.readouterr()
    assert "ended with code 2 before it was ready" in told.err
    assert "no such option" in told.err
    assert told.out == ""
