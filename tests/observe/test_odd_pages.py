"""Pages that are not as they should be: torn, in another order, restarted, with values that are no numbers."""

from __future__ import annotations

from random import Random

import pytest

from tests.observe.pages import observed, pages, said, scraped, target
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.signals.observation import observe_pool
from weft.observe.sources import exposition
from weft.observe.sources.exposition import MOST_SAMPLES

SERIES = series_for(EngineName.VLLM, "0.33.0")
FIRST, SECOND = pages("vllm-0.33.0")


def without(text: str, *names: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(names))


def times_as_much(text: str, times: float, *names: str) -> str:
    """The page with these series so many times as large."""

    def changed(line: str) -> str:
        series, _, value = line.rpartition(" ")
        return f"{series} {float(value) * times}" if line.startswith(names) else line

    return "\n".join(map(changed, text.splitlines())) + "\n"


async def test_neither_the_order_of_labels_nor_of_lines_matters() -> None:
    def mixed(text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        Random(7).shuffle(lines)
        return "\n".join(map(reordered, lines)) + "\n"

    def reordered(line: str) -> str:
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("}")
        return f"{name}{{{','.join(reversed(labels.split(',')))}}} {value.strip()} 1700000000000" if rest else line

    assert await observed(SERIES, mixed(FIRST), mixed(SECOND)) == await observed(SERIES, FIRST, SECOND)


async def test_a_page_that_was_cut_off_keeps_what_was_whole() -> None:
    cut = SECOND[: SECOND.index("vllm:request_generation_tokens_bucket") + 60]
    seen = await observed(SERIES, FIRST, SECOND, cut)
    assert seen.running == 6


@pytest.mark.parametrize("digits", range(1, 5))
async def test_a_number_that_was_cut_off_is_none(digits: int) -> None:
    """`1234567` as `12` would be a restart, and the next whole page a million answers."""
    name = 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"}'
    gauge = 'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
    whole = [f"{gauge}{name} {count}\n" for count in (1234567, 1234577, 1234587)]
    cut = f"{gauge}{name} {'1234577'[:digits]}"
    seen = await observed(SERIES, whole[0], cut, whole[2])
    assert seen.requests_per_second == pytest.approx(20 / 60)


async def test_a_page_of_more_series_than_any_engine_has_is_no_answer() -> None:
    """Reading it would take the operator's time from everybody else."""
    many = "".join(f'vllm:num_requests_running{{engine="{number}"}} 1\n' for number in range(MOST_SAMPLES + 1))
    seen = await observed(SERIES, FIRST + many, SECOND + many)
    assert (seen.answered, seen.complete) == (0, False)


def test_series_of_great_length_are_neither_read_nor_remembered() -> None:
    """Remembered by number, those of one engine would be all memory that there is. A wide character takes 4 bytes."""
    exposition._key.cache_clear()
    usual, emoji = 9 * "a", "\N{SAUROPOD}"
    for label, read in ((usual, 1), (400 * emoji, 1), (2100 * "a", 0), (600 * emoji, 0)):
        assert read == len(exposition.parse(f'x{{label="{label}"}} 1\n', ["x"]))
    assert exposition._key.cache_info().currsize == 2


@pytest.mark.timeout(100)
def test_a_page_that_is_one_series_takes_hardly_any_time() -> None:
    """Its parser would take four minutes for these 4 MiB of quotes, and again at the next scrape."""
    assert {} == exposition.parse(f'x{{label="{2**21 * chr(92) + chr(34)}"}} 1\n', ["x"])


async def test_several_models_on_one_page_are_one_load() -> None:
    """Adapters and aliases of one pod share its batch."""

    def both(text: str) -> str:
        return text + "\n" + text.replace("meta-llama/Llama-3.1-8B-Instruct", "an-adapter")

    one, two = await observed(SERIES, FIRST, SECOND), await observed(SERIES, both(FIRST), both(SECOND))
    assert two.requests_per_second == pytest.approx(2 * (one.requests_per_second or 0.0))
    assert (two.running, two.waiting) == (12, 8)
    assert two.kv_usage == pytest.approx(one.kv_usage)
    assert two.input_tokens == pytest.approx(one.input_tokens)
    assert [at for _, at in two.ttft] == pytest.approx([at for _, at in one.ttft])


async def test_an_engine_that_restarted_counts_from_zero() -> None:
    """It shows 35 requests before and 5 after: those 5 are new, and nothing is negative."""
    seen = await observed(SERIES, SECOND, FIRST)
    assert seen.requests_per_second == pytest.approx(5 / 30)
    assert seen.input_tokens == pytest.approx(250)


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf"])
async def test_a_value_that_no_gauge_can_have_is_missing(value: str) -> None:
    lines = [
        line.rpartition(" ")[0] + f" {value}" if line.startswith("vllm:kv_cache_usage_perc{") else line
        for line in SECOND.splitlines()
    ]
    broken = "\n".join(lines)
    seen = await observed(SERIES, broken, broken)
    assert seen.kv_usage is None
    assert "vllm:kv_cache_usage_perc" in seen.missing


async def test_each_missing_series_is_named_once_and_none_of_its_figures_is_zero() -> None:
    names = ("vllm:time_to_first_token_seconds", "vllm:num_requests_running", "vllm:request_prompt_tokens")
    seen = await observed(SERIES, without(FIRST, *names), without(SECOND, *names))
    assert set(seen.missing) == set(names)
    assert (seen.ttft, seen.ttft_mean, seen.running, seen.input_tokens, seen.input_tokens_p95) == ((), *[None] * 4)
    assert {f"the engine does not show {name}" for name in names} <= set(said(seen))


async def test_a_missing_series_that_scaling_can_do_without_is_said_as_well() -> None:
    """Requests that wait for KV then count as waiting for capacity, as in older versions."""
    name = "vllm:num_requests_waiting_by_reason"
    seen = await observed(SERIES, without(FIRST, name), without(SECOND, name))
    assert (seen.missing, seen.waiting, seen.waiting_for_kv) == ((), 7, None)
    assert said(seen) == (f"the engine does not show {name}",)


async def test_a_caveat_about_a_latency_says_which() -> None:
    latencies = ("time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds")
    names = [f"vllm:{name}" for name in (*latencies, "kv_cache_usage_perc")]
    seen = await observed(SERIES, without(FIRST, *names), without(SECOND, *names))
    told = {caveat.says.removeprefix("the engine does not show "): caveat.figure for caveat in seen.caveats}
    assert told == {
        "vllm:time_to_first_token_seconds": "ttft",
        "vllm:request_time_per_output_token_seconds": "tpot",
        "vllm:kv_cache_usage_perc": "",
    }


async def test_without_times_per_request_those_of_gaps_are_read() -> None:
    name = "vllm:request_time_per_output_token_seconds"
    seen = await observed(SERIES, without(FIRST, name), without(SECOND, name))
    assert seen.tpot_mean == pytest.approx(0.03)
    assert f"vllm:inter_token_latency_seconds is read, since {name} is missing" in said(seen)


class TestBuckets:
    def faster(self, text: str) -> str:
        """Every time per token in the first bucket, up to 10 ms, and 4 ms in the mean."""
        name, lines = "vllm:request_time_per_output_token_seconds", text.splitlines()
        count = {line.partition("{")[2]: line.split()[-1] for line in lines if line.startswith(f"{name}_count{{")}
        found = []
        for line in lines:
            engine = next((number for tags, number in count.items() if tags[:10] in line), "0")
            if line.startswith(f"{name}_bucket"):
                line = f"{line.rpartition(' ')[0]} {engine}"  # noqa: PLW2901 - the line that is kept
            elif line.startswith(f"{name}_sum"):
                line = f"{line.rpartition(' ')[0]} {0.004 * float(engine)}"  # noqa: PLW2901 - as above
            found.append(line)
        return "\n".join(found)

    async def test_that_are_too_coarse_are_said_to_be_and_the_mean_is_used(self) -> None:
        """A target of 8 ms is met with 4 ms; inside (0, 10 ms] nobody could tell."""
        seen = await observed(SERIES, self.faster(FIRST), self.faster(SECOND))
        assert dict(seen.tpot) == pytest.approx(dict.fromkeys((50, 90, 95, 99), 0.004))
        assert [percent for kind, percent in seen.unresolved if kind == "tpot"] == [50, 90, 95, 99]
        assert "TPOT percentiles below 10 ms are in the first bucket: the mean is used instead" in said(seen)

    async def test_of_which_there_is_only_the_infinite_one_give_the_mean(self) -> None:
        def bare(text: str) -> str:
            name = "vllm:time_to_first_token_seconds_bucket"
            return "\n".join(x for x in text.splitlines() if not x.startswith(name) or 'le="+Inf"' in x)

        seen = await observed(SERIES, bare(FIRST), bare(SECOND))
        assert dict(seen.ttft) == pytest.approx(dict.fromkeys((50, 90, 95, 99), 0.38))
        assert any("without a finite bucket" in caveat for caveat in said(seen))

    async def test_without_the_infinite_one_give_nothing_but_the_mean(self) -> None:
        name = "vllm:time_to_first_token_seconds_bucket"
        texts = ["\n".join(x for x in t.splitlines() if not (name in x and "+Inf" in x)) for t in (FIRST, SECOND)]
        seen = await observed(SERIES, *texts)
        assert seen.ttft == ()
        assert seen.ttft_mean == pytest.approx(0.38)


class TestQueuesByPriority:
    """SGLang with `--enable-priority-scheduling`: all requests without a priority, and again by each of them."""

    ENGINE = series_for(EngineName.SGLang, "0.5.23")
    LABELS = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'

    def page(self, whole: str, finished: int) -> str:
        told = {"num_running_reqs": (7, 5, 2), "num_queue_reqs": (4, 0, 4), "num_decode_transfer_queue_reqs": (3, 2, 1)}
        lines = [f"sglang:num_requests_total{{{self.LABELS}}} {finished}", f"sglang:token_usage{{{self.LABELS}}} 0.5"]
        for name, (every, *parts) in told.items():
            lines.append(f"sglang:{name}{{{self.LABELS}{whole}}} {every}")
            lines += [f'sglang:{name}{{{self.LABELS},priority="{at}"}} {part}' for at, part in enumerate(parts)]
        return "\n".join([*lines, ""])

    @pytest.mark.parametrize("whole", [',priority=""', ""], ids=["as scraped", "as Prometheus stores it"])
    async def test_are_counted_once(self, whole: str) -> None:
        seen = await observed(self.ENGINE, self.page(whole, 10), self.page(whole, 20))
        assert (seen.running, seen.waiting, seen.waiting_for_kv) == (7, 4, 3)

    async def test_count_where_nothing_tells_all_of_them(self) -> None:
        seen = await observed(self.ENGINE, *(self.page(',priority="2"', finished) for finished in (10, 20)))
        assert (seen.running, seen.waiting) == (14, 8)

    def answers(self, without: str, counts: tuple[int, int], ttft: tuple[float, float] = (0.1, 0.4)) -> str:
        """So many requests without a priority and with 1, of 100 tokens: no request is in both, and none tells all."""
        page = self.page(without, 0).replace("sglang:num_requests_total{", "ignored{")
        for label, count, seconds in zip((without, ',priority="1"'), counts, ttft, strict=True):
            tags, name = f'engine_type="unified",model_name="m"{label}', "sglang:time_to_first_token_seconds"
            page += f"sglang:num_requests_total{{{tags}}} {count}\nsglang:prompt_tokens_total{{{tags}}} {100 * count}\n"
            page += f"{name}_sum{{{tags}}} {seconds * count}\n{name}_count{{{tags}}} {count}\n"
            page += "".join(f'{name}_bucket{{{tags},le="{le}"}} {count}\n' for le in ("0.5", "+Inf"))
        return page

    @pytest.mark.parametrize("without", [',priority=""', ""], ids=["as scraped", "as Prometheus stores it"])
    async def test_are_no_parts_of_each_other_once_they_are_answered(self, without: str) -> None:
        """One request that names no priority hides none of the 29 that do."""
        seen = await observed(self.ENGINE, self.answers(without, (1, 1)), self.answers(without, (2, 30)))
        assert seen.requests_per_second == pytest.approx(30 / 30)
        assert seen.input_tokens == pytest.approx(100)
        assert seen.ttft_mean == pytest.approx((1 * 0.1 + 29 * 0.4) / 30)
        assert dict(seen.ttft_buckets) == {0.5: 30, float("inf"): 30}
        assert (seen.running, seen.waiting, seen.waiting_for_kv) == (7, 4, 3)


class TestPercent:
    """A ratio that is told in percent by whatever stands before the engine."""

    NAME = "vllm:kv_cache_usage_perc"

    async def test_is_named_and_not_believed(self) -> None:
        seen = await observed(SERIES, *(times_as_much(text, 100.0, self.NAME) for text in (FIRST, SECOND)))
        assert (seen.kv_usage, seen.missing) == (None, ())
        assert "KV use is above 1, where a ratio is expected: it is ignored (is it in percent?)" in said(seen)

    async def test_of_one_pod_is_believed_of_no_other_and_of_none_that_is_idle_by_now(self) -> None:
        busy, idle = ([times_as_much(text, times, self.NAME) for text in (FIRST, SECOND)] for times in (100.0, 0.0))
        pods = (target(SERIES, "busy"), target(SERIES, "idle"))
        texts = {"busy": (busy[0], idle[1]), "idle": (idle[0], idle[1])}
        assert observe_pool(pods, await scraped(pods, texts)).kv_usage is None

    async def test_is_not_suspected_of_a_cache_that_is_full(self) -> None:
        full = times_as_much(SECOND, 0.0, self.NAME).replace(f"{self.NAME}{{", "ignored{")
        full += "".join(f'{self.NAME}{{engine="{rank}",model_name="m"}} 1.0\n' for rank in range(8))
        seen = await observed(SERIES, full, full)
        assert seen.kv_usage == 1.0
        assert not any("percent" in sentence for sentence in said(seen))


class TestOtherUnits:
    """Latencies in milliseconds on a page that names them seconds: few were inside, and none for so long."""

    TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"

    def telling(self, text: str, times: float) -> str:
        """The page with latencies as so many times what they are."""
        return times_as_much(text, times, f"{self.TTFT}_sum", f"{self.TPOT}_sum")

    async def test_are_named_and_not_believed(self) -> None:
        first, second = (times_as_much(text, 0.1, "vllm:num_requests") for text in (FIRST, SECOND))
        seen = await observed(SERIES, self.telling(first, 1000.0), self.telling(second, 1000.0))
        assert (seen.ttft_mean, seen.tpot_mean, seen.ttft, seen.tpot) == (None, None, (), ())
        assert sum("is too high for so few requests in progress" in sentence for sentence in said(seen)) == 2
        assert {caveat.figure for caveat in seen.caveats if "is too high for" in caveat.says} == {"ttft", "tpot"}

    async def test_of_one_pod_are_believed_of_no_other_of_the_pool(self) -> None:
        """One build tells one unit: a pod with enough inside, or one that was just started, contradicts nothing."""
        told = [self.telling(text, 1000.0) for text in (FIRST, SECOND)]
        few, many = ([times_as_much(text, times, "vllm:num_requests") for text in told] for times in (0.1, 1000.0))
        pods = (target(SERIES, "few"), target(SERIES, "many"))
        assert "another unit" not in "".join(said(await observed(SERIES, *many)))
        seen = observe_pool(pods, await scraped(pods, {"few": tuple(few), "many": tuple(many)}))
        assert (seen.ttft, seen.ttft_mean, seen.ttft_buckets) == ((), None, ())
        assert (seen.tpot, seen.tpot_mean, seen.tpot_buckets) == ((), None, ())

    async def test_are_not_suspected_of_latencies_that_may_be(self) -> None:
        """A hundred times as long is a crowd, of which some were there before."""
        seen = await observed(SERIES, self.telling(FIRST, 100.0), self.telling(SECOND, 100.0))
        usual = await observed(SERIES, FIRST, SECOND)
        assert said(seen) == said(usual)
        assert seen.ttft_mean == pytest.approx(100.0 * (usual.ttft_mean or 0.0))
