"""Every engine and version is read to the same observation: 30 requests within half a minute, told in its own names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from tests.observe.fake_prometheus import FakePrometheus
from tests.observe.pages import APART_SECONDS, observed, pages, said, scraped, target
from tests.observe.test_odd_pages import without
from weft.domain.shape import EngineName
from weft.domain.start_up import MeasuredStart
from weft.engines import series_for
from weft.observe.samples.history import History
from weft.observe.samples.window import Window
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.exposition import parse
from weft.observe.sources.prometheus import PrometheusSource

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation

ENGINES = {"vllm": EngineName.VLLM, "sglang": EngineName.SGLang, "tensorrt-llm": EngineName.TensorRTLLM}
SAME = {
    "requests_per_second": 1.0,
    "input_tokens": 560.0,  # 27 prompts of 400 and 3 of 2000
    "output_tokens": 80.0,
    "prefix_hit": 0.25,
    "waiting": 4.0,
    "running": 6.0,
    "kv_usage": 0.42,
    "ttft_mean": 0.38,
    "tpot_mean": 0.03,
    "input_tokens_p95": None,
    "output_tokens_p95": None,
    "computed_input_tokens": 420.0,
    "waiting_for_kv": None,
    "transfer_seconds": None,
    "startup_seconds": None,
    "missing": (),
}
# 27 of 30 within 1000, all within 2000; of answers, all of which are in one bucket, nobody knows.
P95: dict[str, object] = {"input_tokens_p95": 1346.4724}
REASONS: dict[str, object] = {"waiting_for_kv": 0.0}
RELEASES: dict[str, dict[str, object]] = {
    "vllm-0.10.0": P95,
    "vllm-0.10.2": P95,
    "vllm-0.11.2": P95,
    "vllm-0.12.0": {**P95, "transfer_seconds": 0.012},
    "vllm-0.13.0": P95,
    "vllm-0.15.1": {**P95, "transfer_seconds": 0.012},
    "vllm-0.17.1": P95,
    "vllm-0.18.1": P95,
    "vllm-0.20.2": {**P95, **REASONS},
    "vllm-0.25.1": {**P95, "waiting_for_kv": 3.0, "transfer_seconds": 0.012},
    "vllm-0.33.0": {**P95, "waiting_for_kv": 3.0, "transfer_seconds": 0.012},
    "sglang-0.5.3": {"waiting_for_kv": 0.0, "startup_seconds": 95.5},
    "sglang-0.5.10": {
        "waiting_for_kv": 3.0,
        "startup_seconds": 95.5,
        "transfer_seconds": 0.012,
        "input_tokens_p95": 1697.1219,
    },
    "sglang-0.5.23": {"waiting_for_kv": 3.0, "startup_seconds": 95.5, "transfer_seconds": 0.012},
    "tensorrt-llm-1.2.1": {
        **dict.fromkeys(["input_tokens", "output_tokens", "prefix_hit", "computed_input_tokens"]),
        **dict.fromkeys(["waiting", "running", "kv_usage"]),
        "missing": ("running requests", "waiting requests", "KV use", "prompt lengths"),
    },
    "tensorrt-llm-1.3.0rc12": {
        **dict.fromkeys(["input_tokens", "output_tokens", "computed_input_tokens"]),
        "missing": ("prompt lengths",),
    },
    "tensorrt-llm-1.3.0": {"computed_input_tokens": None},
}


def split(release: str) -> tuple[EngineName, str]:
    name, _, version = release.rpartition("-")
    return ENGINES[name], version


@pytest.mark.parametrize("release", RELEASES)
async def test_a_page_of_each_release_is_read_to_the_same_figures(release: str) -> None:
    series = series_for(*split(release))
    seen = await observed(series, *pages(release))
    expected = {**SAME, **RELEASES[release]}
    figures = {name: getattr(seen, name) for name in expected}
    assert figures == {k: pytest.approx(v, rel=1e-4) if isinstance(v, float) else v for k, v in expected.items()}
    assert (seen.expected, seen.answered) == (1, 1)
    assert dict(seen.tpot)[50] == pytest.approx(0.03, abs=0.01)
    assert dict(seen.ttft)[50] == pytest.approx(0.19, abs=0.03)


@pytest.mark.parametrize(
    ("release", "by_bucket"),
    [("vllm-0.33.0", True), ("vllm-0.25.1", True), ("vllm-0.10.0", False), ("sglang-0.5.10", False)],
)
async def test_percentiles_of_transfers_are_known_where_they_are_counted_by_bucket(
    release: str,
    by_bucket: bool,  # noqa: FBT001 - a case
) -> None:
    """All of them took 10 to 25 ms. SGLang up to 0.5.10 tells the newest one alone."""
    seen = await observed(series_for(*split(release)), *pages(release))
    assert by_bucket is bool(seen.transfers)
    assert all(0.01 < seconds <= 0.025 for _, seconds in seen.transfers)


@pytest.mark.parametrize(
    ("release", "done", "failed"),
    [
        ("vllm-0.33.0", 30.0, 3.0),
        ("vllm-0.25.1", 30.0, 3.0),
        ("vllm-0.20.2", None, None),
        ("vllm-0.12.0", 30.0, 3.0),
        ("sglang-0.5.23", 30.0, None),
    ],
)
async def test_transfers_are_counted_where_the_engine_tells_how_they_ended(
    release: str, done: float | None, failed: float | None
) -> None:
    """Of both ranks that share requests; one that never said so has not failed."""
    (pod,) = (await observed(series_for(*split(release)), *pages(release))).pods
    assert (pod.transfers_done, pod.transfers_failed) == (done, failed)


@pytest.mark.parametrize(
    ("release", "expired"),
    [
        ("vllm-0.33.0", 5.0),
        ("vllm-0.25.1", 3.0),
        ("vllm-0.15.1", 3.0),
        ("vllm-0.12.0", None),
        ("vllm-0.20.2", None),
        ("sglang-0.5.23", None),
    ],
)
async def test_kv_that_expired_is_counted_beside_the_requests_that_ended(release: str, expired: float | None) -> None:
    (pod,) = (await observed(series_for(*split(release)), *pages(release))).pods
    assert (pod.requests_done, pod.kv_expired) == (30.0, expired)


@pytest.mark.parametrize(("counted", "failed"), [((50, 0), 0.0), ((50, 2), 2.0), ((50, 50), 0.0), ((50, 53), 3.0)])
async def test_an_engine_that_starts_anew_has_failed_no_more_than_it_says(
    counted: tuple[int, int], failed: float
) -> None:
    """A counter that falls counts from zero again: what failed before is of the past."""
    series = series_for(EngineName.VLLM, "0.20.2")
    told = [
        f'{page}\nvllm:nixl_num_failed_transfers_total{{engine="0"}} {count}\n'
        for page, count in zip(pages("vllm-0.20.2"), counted, strict=True)
    ]
    (pod,) = (await observed(series, *told)).pods
    assert pod.transfers_failed == failed


@pytest.mark.parametrize("release", [*RELEASES, "vllm-0.32.0", "sglang-0.5.15"])
async def test_prometheus_tells_the_same_of_each_release(release: str) -> None:
    series = series_for(*split(release))
    targets = (target(series),)
    scrapes = [
        (1000.0 + APART_SECONDS * step, "a", parse(text, series.names)) for step, text in enumerate(pages(release))
    ]
    with ThreadPoolExecutor(1) as executor:
        async with FakePrometheus(scrapes).served() as url:
            asked = observe_pool(targets, await PrometheusSource(url, executor).collect(targets))
    assert asked == await observed(series, *pages(release))


async def test_prometheus_tells_of_two_engines_of_one_pool_in_one_collection() -> None:
    """Each by its own names, as the engines themselves do."""
    releases = {"a": "vllm-0.32.0", "b": "sglang-0.5.23"}
    targets = tuple(target(series_for(*split(release)), uid) for uid, release in releases.items())
    scrapes = [
        (1000.0 + APART_SECONDS * step, one.uid, parse(text, one.names))
        for one in targets
        for step, text in enumerate(pages(releases[one.uid]))
    ]
    with ThreadPoolExecutor(1) as executor:
        async with FakePrometheus(scrapes).served() as url:
            asked = observe_pool(targets, await PrometheusSource(url, executor).collect(targets))
    texts = {uid: pages(release) for uid, release in releases.items()}
    assert asked == observe_pool(targets, await scraped(targets, texts))
    assert asked.complete


async def test_what_a_real_engine_showed_is_read_without_a_caveat_of_names() -> None:
    """VLLM 0.32.0 with 22 requests in 3.2 s, 6 of which are still running; read as if half a minute had passed."""
    seen = await observed(series_for(EngineName.VLLM, "0.32.0"), *pages("vllm-0.32.0"))
    assert seen.requests_per_second == pytest.approx(16 / 30)
    assert (seen.running, seen.waiting, seen.waiting_for_kv) == (6, 0, 0)
    assert (seen.missing, seen.complete) == ((), True)
    assert seen.input_tokens == pytest.approx(308, abs=2)  # one token for each of 207 or 607 letters
    assert seen.output_tokens == pytest.approx((12 * 40 + 4 * 20) / 16)
    assert (seen.computed_input_tokens or 0.0) < (seen.input_tokens or 0.0)
    assert not [caveat for caveat in said(seen) if "read" in caveat or "show" in caveat]


async def test_what_sglang_showed_on_a_gpu_is_read_to_the_figures_of_its_page() -> None:
    """SGLang 0.5.15 after 899 requests, as if they had come in half a minute; of its gauges one is NaN."""
    seen = await observed(series_for(EngineName.SGLang, "0.5.15"), *pages("sglang-0.5.15"))
    assert (seen.missing, seen.complete) == ((), True)
    assert said(seen) == ("TTFT percentiles below 100 ms are in the first bucket: the mean is used instead",)
    assert seen.requests_per_second == pytest.approx(899 / 30)
    assert seen.input_tokens == pytest.approx(879_719 / 899)
    assert seen.computed_input_tokens == pytest.approx(879_717 / 899)
    assert seen.output_tokens == pytest.approx(113_079 / 899)
    assert seen.ttft_mean == pytest.approx(115.97185 / 899)
    assert seen.tpot_mean == pytest.approx(1350.65199 / 112_173)
    assert (seen.running, seen.waiting, seen.waiting_for_kv, seen.kv_usage) == (2, 0, 0, 0.01)
    assert 1000 < (seen.input_tokens_p95 or 0.0) <= 1500  # 778 of 899 within 1000, 879 within 1500
    assert {"NaN"} == {line.split()[-1] for line in pages("sglang-0.5.15")[1].splitlines() if "fwd_occupancy{" in line}


async def test_a_start_of_no_time_was_not_told() -> None:
    """SGLang 0.5.15 shows zero whatever its start took; what the pod's conditions say counts as ever."""
    series = series_for(EngineName.SGLang, "0.5.15")
    assert "sglang:engine_startup_time" in pages("sglang-0.5.15")[1]
    (pod,) = (await observed(series, *pages("sglang-0.5.15"))).pods
    assert pod.startup_seconds is None
    by_conditions = replace(target(series, startup_seconds=75.0), start=MeasuredStart(4, (3, 0, 0, 0, 72)))
    texts = {"a": pages("sglang-0.5.15")}
    (known,) = observe_pool((by_conditions,), await scraped((by_conditions,), texts)).pods
    assert (known.startup_seconds, known.start) == (75.0, by_conditions.start)


async def test_a_rank_that_tells_no_start_does_not_halve_that_of_the_other() -> None:
    lines = (f'sglang:engine_startup_time{{dp_rank="{rank}"}} {told}' for rank, told in enumerate((0.0, 90.0)))
    text = "\n".join((without(pages("sglang-0.5.15")[0], "sglang:engine_startup_time"), *lines, ""))
    (pod,) = (await observed(series_for(EngineName.SGLang, "0.5.15"), text, text)).pods
    assert pod.startup_seconds == 90.0


@pytest.mark.parametrize(
    ("running", "deferred", "kv"),
    [(0, 0, 0.0), (1, 0, 0.0), (0, 1, 0.0), (0, 0, 0.001)],
    ids=["nothing", "a request", "one that waits for KV", "KV that somebody is yet to pull"],
)
def test_an_engine_is_idle_once_it_runs_nothing_and_nobody_pulls_from_it(
    running: int, deferred: int, kv: float
) -> None:
    series = series_for(EngineName.VLLM, "0.32.0")
    text = f"""
vllm:num_requests_running {running}
vllm:num_requests_waiting {deferred}
vllm:num_requests_waiting_by_reason{{reason="capacity"}} 0
vllm:num_requests_waiting_by_reason{{reason="deferred"}} {deferred}
vllm:kv_cache_usage_perc {kv}
"""
    history = History(0.0, {key: ((0.0, value),) for key, value in parse(text, series.names).items()})
    assert Window.of(history, series).idle is (running + deferred + kv == 0)


@pytest.mark.parametrize("release", ["sglang-0.5.23", "tensorrt-llm-1.3.0", "tensorrt-llm-1.2.1"])
def test_an_engine_whose_figures_are_of_a_while_ago_says_nothing_of_it(release: str) -> None:
    """SGLang counts no request as running while its prompt is computed, TensorRT-LLM after each iteration."""
    series = series_for(*split(release))
    gauges = [name for name in (series.running, series.waiting, series.kv_usage) if name is not None]
    found = History(0.0, {(name, ()): ((0.0, 0.0),) for name in gauges})
    assert Window.of(found, series).idle is None


async def test_ranks_on_one_page_are_one_replica() -> None:
    """Data-parallel ranks share the requests; ranks in lockstep tell the same ones."""
    series = series_for(EngineName.SGLang, "0.5.23")
    texts = pages("sglang-0.5.23")
    shadowed = [
        "\n".join(line + "\n" + line.replace('tp_rank="0"', 'tp_rank="1"') for line in text.splitlines())
        for text in texts
    ]
    assert await observed(series, *shadowed) == await observed(series, *texts)


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_all_series_of_a_name_have_the_same_labels(release: str) -> None:
    """So it is enough that `History` asks the first one whether its ranks are in lockstep, many times in a pass."""
    labels: dict[str, set[tuple[str, ...]]] = {}
    for text in pages(release):
        for name, tags in parse(text, series_for(*split(release)).names):
            labels.setdefault(name, set()).add(tuple(label for label, _ in tags))
    assert labels
    assert {name: found for name, found in labels.items() if len(found) > 1} == {}


async def test_a_version_is_read_by_the_names_of_another_and_says_so() -> None:
    """An image of the user's own: the version in status is not the one that answers."""
    seen = await observed(series_for(EngineName.VLLM, "0.33.0"), *pages("vllm-0.10.0"))
    as_itself = await observed(series_for(EngineName.VLLM, "0.10.0"), *pages("vllm-0.10.0"))
    assert said(as_itself) == ()
    assert "vllm:time_per_output_token_seconds is read in place of vllm:inter_token_latency_seconds" in said(seen)
    assert _figures(seen) == _figures(as_itself)


async def test_the_other_way_round_too() -> None:
    seen = await observed(series_for(EngineName.VLLM, "0.10.0"), *pages("vllm-0.33.0"))
    as_itself = await observed(series_for(EngineName.VLLM, "0.33.0"), *pages("vllm-0.33.0"))
    assert any("should not have yet" in caveat for caveat in said(seen))
    assert _figures(seen) == _figures(as_itself)


async def test_what_a_version_hides_is_read_alike_where_it_is_shown() -> None:
    """`--show-hidden-metrics-for-version`: the old name comes back beside the new one, and counts no gap twice."""
    hidden = "vllm:time_per_output_token_seconds"
    shown = [
        "".join((now, *(line for line in before.splitlines(keepends=True) if line.startswith(hidden))))
        for now, before in zip(pages("vllm-0.12.0"), pages("vllm-0.11.2"), strict=True)
    ]
    assert all(hidden in text for text in shown)
    series = series_for(EngineName.VLLM, "0.12.0")
    assert await observed(series, *shown) == await observed(series, *pages("vllm-0.12.0"))
    only_hidden = [without(text, "vllm:inter_token_latency_seconds") for text in shown]
    assert "vllm:time_per_output_token_seconds is read in place of vllm:inter_token_latency_seconds" in said(
        await observed(series, *only_hidden)
    )


async def test_what_a_version_cannot_tell_is_said() -> None:
    seen = await observed(series_for(EngineName.TensorRTLLM, "1.2.1"), *pages("tensorrt-llm-1.2.1"))
    assert "this version of the engine does not report running requests" in said(seen)


async def test_what_is_switched_off_is_said_with_its_switch() -> None:
    first, second = pages("tensorrt-llm-1.2.1")
    seen = await observed(series_for(EngineName.TensorRTLLM, "1.3.0"), first, second)
    assert seen.missing[0] == "trtllm_num_requests_running"
    assert any("enable_iter_perf_stats: true" in caveat for caveat in said(seen))


async def test_an_engine_that_nobody_asked_yet_answers_nothing_per_second() -> None:
    """SGLang's counters are born with the first request; idle is not the same as missing."""
    gauges = "".join(
        f'sglang:{name}{{engine_type="unified",model_name="m",tp_rank="0"}} 0.0\n'
        for name in ("num_running_reqs", "num_queue_reqs", "token_usage")
    )
    series = series_for(EngineName.SGLang, "0.5.23")
    idle = await observed(series, gauges, gauges)
    assert (idle.requests_per_second, idle.complete, idle.missing) == (0.0, True, ())
    busy = gauges.replace('num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 0', "num_running_reqs 3")
    assert (await observed(series, busy, busy)).requests_per_second is None


def _figures(seen: PoolObservation) -> dict[str, object]:
    return {each.name: getattr(seen, each.name) for each in fields(seen) if each.name != "caveats"}


@pytest.mark.parametrize(
    ("by_reason", "waiting", "for_kv"),
    [
        ({"capacity": 20.0, "deferred": 30.0}, 20.0, 30.0),
        ({"deferred": 50.0}, 0.0, 50.0),
        ({"deferred": 51.0}, 0.0, 51.0),
        ({"deferred": 30.0}, 20.0, 30.0),
        ({}, 50.0, None),
    ],
    ids=["both", "deferred alone", "one more than wait by now", "deferred and others", "none"],
)
def test_requests_that_wait_for_kv_do_not_wait_for_capacity_as_well(
    by_reason: dict[str, float], waiting: float, for_kv: float | None
) -> None:
    """Of 50 that wait in all; a page may lack the reason that counts none."""
    series = series_for(EngineName.VLLM, "0.33.0")
    reasons = (f'vllm:num_requests_waiting_by_reason{{reason="{each}"}} {told}' for each, told in by_reason.items())
    text = "\n".join(("vllm:num_requests_running 1", "vllm:num_requests_waiting 50", *reasons, ""))
    history = History(0.0, {key: ((0.0, value),) for key, value in parse(text, series.names).items()})
    window = Window.of(history, series)
    assert (window.waiting, window.waiting_for_kv) == (waiting, for_kv)
