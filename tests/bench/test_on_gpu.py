"""Engines on a GPU beside what Weft expects: what starts them, who asks them, and what the page makes of figures."""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bench.on_gpu.__main__ import DENSE, FP8, H200, PAGE, SGLANG, recorded, told
from bench.on_gpu.compared import arrivals, loops, off_after, room
from bench.on_gpu.halves_page import WEFTS_KIB, rate_by_a_line, rates_at_once, rates_of
from bench.on_gpu.leaving import STREAMS, left
from bench.on_gpu.loads import Crowd, Lengths
from bench.on_gpu.page import as_page
from bench.on_gpu.plan import PLAN, wires
from bench.on_gpu.programs import PROGRAMS
from bench.on_gpu.reading import kv_tokens
from bench.on_gpu.tables import loops_beside, same_load
from bench.truth_bench.asking import Served
from tests.bench.loopback import Quiet, answering
from tests.bench.test_engine_truth import streaming
from tests.observe.pages import page
from tests.perf.replicas import replica
from tests.render.pools import plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import EngineSpec, KVSpec
from weft.domain.workload import Role
from weft.engines.pods.environment import transports
from weft.engines.terms.launch import EnvValue, LaunchRequest
from weft.perf import SEVERAL_THROUGH_THE_HOST, sent_bytes_per_second
from weft.render import render_pods

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOLD, RECORDED = told(DENSE), recorded()
SEATS = {EngineName.VLLM: "--max-num-seqs", EngineName.SGLang: "--max-running-requests"}
PLACES = {"--model-path", "--served-model-name", "--host", "--port"}
OF_PAIRS = {pair["pieces_kib"]: pair for pair in RECORDED.pairs}


def changed(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of what was recorded
    return {**copy.deepcopy(TOLD), **parts}


@pytest.mark.parametrize(
    ("engine", "measured", "precision", "accelerator"),
    [
        (EngineName.VLLM, DENSE, Precision.BF16, "H100"),
        (EngineName.VLLM, FP8, Precision.FP8, "H100"),
        (EngineName.SGLang, SGLANG, Precision.BF16, "H100"),
        (EngineName.VLLM, H200[0], Precision.BF16, "H200"),
        (EngineName.VLLM, H200[1], Precision.FP8, "H200"),
        (EngineName.VLLM, H200[2], Precision.BF16, "H200"),
    ],
    ids=["vLLM", "vLLM in FP8", "SGLang", "H200", "H200 in FP8", "a larger model"],
)
def test_the_engine_is_started_as_weft_renders_it(
    engine: EngineName, measured: Path, precision: Precision, accelerator: str
) -> None:
    """But for where weights are and where it answers."""
    asked, program = told(measured), PROGRAMS[engine.lower()]
    command = rendered(EngineRelease(engine, asked[program.name], "engine"), precision, accelerator)
    assert tuple(asked["options"]) == planned(asked["name"])
    assert command[: len(program.command)] == program.command
    started = (*program.common, *planned(asked["name"]))
    assert {name: value for name, value in flags(command).items() if name not in PLACES} == flags(started)


def rendered(release: EngineRelease, precision: Precision, accelerator: str) -> tuple[str, ...]:
    """The command of a pool's engine."""
    chosen = shape(accelerator=accelerator, precision=precision, engine=release.name)
    wanted = spec(engine=EngineSpec(name=release.name, args=(SEATS[release.name], "256")))
    record = pool(wanted, plan(chosen, release), ("node-a",))
    return tuple(render_pods(record, record.status.assignments[0])[0]["spec"]["containers"][0]["command"])


def planned(name: str) -> tuple[str, ...]:
    engines = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["engines"]
    return next(tuple(each["options"]) for each in engines if each["name"] == name)


def flags(command: tuple[str, ...]) -> dict[str, str]:
    """Each option with its value, empty where it has none."""
    values = (each if not each.startswith("--") else "" for each in (*command[1:], ""))
    return {each: value for each, value in zip(command, values, strict=True) if each.startswith("--")}


def test_users_in_several_processes_ask_for_all_they_should() -> None:
    crowd = Crowd()
    with streaming(prompts=(6, 7, 8)) as url:
        loop = {"input": 8, "output": 5, "users": 3, "rounds": 3}
        model = Served("tiny", 256)
        found = crowd.users(url, model, loop)
        assert len(found) == 3 * (3 - 1)
        sent = [each.sent for each in crowd.arrivals(url, model, Lengths(8, 5), 200.0, 20)]
    crowd.leave()
    assert len(sent) == 20
    assert sent == sorted(sent)


class Told:
    """An engine that counts how often it was told to end, and is gone two seconds later."""

    def __init__(self, url: str) -> None:
        self.url, self.times = url, 0

    def end(self) -> None:
        self.times += 1
        self.at = time.monotonic()

    def ended(self) -> float:
        return self.at + 2.0


@pytest.mark.parametrize("cut", [0, 3])
def test_streams_that_a_sigterm_met_are_counted_by_the_tokens_that_came(cut: int) -> None:
    """It is told once, when all have begun; those that are cut off never tell how many they had."""
    with finishing(cut) as url:
        engine = Told(url)
        told = left(engine, Served("tiny", 256))
    assert (1, STREAMS, STREAMS - cut) == (engine.times, told["streams"], told["whole"])
    assert told["tokens"].count(0) == cut
    assert told["seconds"] == pytest.approx(2.0, abs=0.1)


@contextmanager
def finishing(cut: int) -> Iterator[str]:
    """A server on loopback whose streams end once all have begun, but for so many without their count."""
    begun = threading.Barrier(STREAMS)

    class Answer(Quiet):
        def answer(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'data: {"choices": [{"text": "a"}]}\n\n')
            self.wfile.flush()
            if begun.wait(10.0) >= cut:
                self.wfile.write(b'data: {"choices": [], "usage": {"completion_tokens": 512}}\n\ndata: [DONE]\n\n')

    with answering(Answer) as url:
        yield url


def test_lengths_lie_between_four_fifths_of_the_nominal_ones_and_all_of_them() -> None:
    found = list(Lengths(1000, 100).drawn(500, seed=3))
    assert found == list(Lengths(1000, 100).drawn(500, seed=3))
    prompts = [each for each, _ in found]
    assert 800 <= min(prompts) <= 805
    assert 995 <= max(prompts) <= 1000
    assert {each for _, each in found} == set(range(80, 101))


def test_the_page_is_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == as_page(RECORDED)


def test_an_error_that_all_loads_share_is_gone_once_one_is_known() -> None:
    exact = loops(TOLD)
    twice = [
        {**loop, "tpot_ms": {"p50": 2.0 * each.tpot.expected}} for loop, each in zip(TOLD["closed"], exact, strict=True)
    ]
    found = loops(changed(closed=twice))
    assert [each.tpot.off for each in found] == pytest.approx([-0.5] * len(found))
    assert off_after(found[2], found, "tpot") == pytest.approx(0.0)
    assert "the engine was slower than expected" in as_page(replace(RECORDED, dense=changed(closed=twice)))


def test_what_a_split_is_expected_to_send_over_tcp_is_what_was_measured() -> None:
    """In pieces of the size that Weft asks for, and so it was by those of two other sizes before."""
    half = replace(replica("llama-3.1-8b", "H100", Precision.BF16), wire="TCP")
    expected = sent_bytes_per_second(half)
    rates = rates_of(RECORDED.pairs, WEFTS_KIB)
    assert min(rates) < expected < max(rates)
    assert expected == pytest.approx(mean(rates), rel=0.05)
    assert expected == pytest.approx(rate_by_a_line(OF_PAIRS[8], OF_PAIRS[128]), rel=0.05)


def test_what_several_prompts_at_once_are_expected_to_get_is_what_users_had_together() -> None:
    half = replace(replica("llama-3.1-8b", "H100", Precision.BF16), wire="TCP")
    together = mean(rates_at_once(RECORDED.pairs, WEFTS_KIB))
    assert sent_bytes_per_second(half) * SEVERAL_THROUGH_THE_HOST == pytest.approx(together, rel=0.05)


def test_a_run_with_prompts_of_its_own_without_a_second_engine_is_held_against_those() -> None:
    """By hand: 1,024 x 0.9 tokens of 128 KiB of KV in what 144.935 ms are longer than 50.703."""
    assert rates_of(RECORDED.pairs, WEFTS_KIB)[0] == pytest.approx(1024 * 0.9 * 131072 / 0.094232)
    alone = OF_PAIRS[8]["alone"][0]["ttft_ms"]["p50"]
    assert "alone" not in OF_PAIRS[128]
    longer = OF_PAIRS[128]["split"][0]["ttft_ms"]["p50"] - alone
    assert rates_of(RECORDED.pairs, 128)[0] == pytest.approx(1024 * 0.9 * 131072 / longer * 1e3)


def test_halves_are_sent_the_pieces_that_the_plan_says() -> None:
    for each in yaml.safe_load(PLAN.read_text(encoding="utf-8"))["pairs"]:
        told_of = dict(wires(each))
        assert told_of["UCX_TCP_TX_SEG_SIZE"] == f"{each['pieces_kib']}k"
        assert int(told_of["UCX_TCP_RX_SEG_SIZE"][:-1]) >= max(64, each["pieces_kib"])
    rendered = transports(LaunchRequest(spec(Role.Decode, kv=KVSpec(transport="TCP")), plan(shape(accelerator="H100"))))
    (tls, piece) = rendered
    assert set(OF_PAIRS) > {8, WEFTS_KIB, 128}
    assert piece == EnvValue("UCX_TCP_TX_SEG_SIZE", f"{WEFTS_KIB}k")
    assert set(OF_PAIRS[WEFTS_KIB]["wires"].split(",")) == set(str(tls.value).split(",")) - {"sm"}


def test_arrivals_stand_beside_the_model_and_the_twin() -> None:
    for each in (*arrivals(TOLD), *arrivals(RECORDED.sglang)):
        measured, model = each.tpot["p50"]
        assert model == pytest.approx(measured, rel=0.8)
        assert each.twin[1] == pytest.approx(measured, rel=0.25)


def test_loads_stand_beside_those_of_another_engine() -> None:
    ours, others = loops(RECORDED.sglang), loops(TOLD)
    for each in ours:
        other = same_load(each, others)
        assert (each.input, each.output, each.users) == (other.input, other.output, other.users)
    rows = loops_beside(ours, "vLLM", others).splitlines()
    assert len(rows) == 2 + len(ours)
    assert rows[2].endswith("| 37 | 6.5 |")  # of one user, as the file of vLLM has it
    assert len({row.count("|") for row in rows}) == 1


@pytest.mark.parametrize(("measured", "release"), [(DENSE, "vllm-0.26.0"), (SGLANG, "sglang-0.5.15")])
def test_room_for_kv_is_read_off_the_metrics_and_off_the_memory_model(measured: Path, release: str) -> None:
    tokens, expected = room(told(measured))
    assert tokens == kv_tokens(page(release, "second"))
    assert expected == pytest.approx(tokens, rel=0.1)
    assert kv_tokens("") == 0


def test_weights_in_8_bits_leave_room_for_kv_in_16() -> None:
    """As much more as weights are smaller, and not twice that, as KV in 8 bits would have."""
    tokens, expected = room(RECORDED.fp8)
    assert expected == pytest.approx(tokens, rel=0.1)
    assert room(TOLD)[1] < expected < 1.5 * room(TOLD)[1]
