"""vLLM on a GPU beside what Weft expects: what it is started with, who asks it, and what the page makes of figures."""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bench.on_gpu.__main__ import DENSE, EXPERTS, PAGE, PAIRS, told
from bench.on_gpu.compared import arrivals, loops, off_after, room
from bench.on_gpu.halves_page import WEFTS_KIB, expected_rate
from bench.on_gpu.leaving import STREAMS, left
from bench.on_gpu.loads import Crowd, Lengths
from bench.on_gpu.page import as_page
from bench.on_gpu.plan import COMMON, PLAN, wires
from bench.on_gpu.reading import kv_tokens
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
from weft.engines.environment import transports
from weft.engines.launch import EnvValue, LaunchRequest
from weft.perf import sent_bytes_per_second
from weft.render import render_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

TOLD, OF_EXPERTS, OF_PAIRS = told(DENSE), told(EXPERTS), [told(each) for each in PAIRS]


def changed(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of what was recorded
    return {**copy.deepcopy(TOLD), **parts}


def test_the_engine_is_started_as_weft_renders_it() -> None:
    release = EngineRelease(EngineName.VLLM, TOLD["vllm"], "vllm")
    seats = ("--max-num-seqs", "256")
    record = pool(spec(engine=EngineSpec(args=seats)), plan(shape(accelerator="H100"), release), ("node-a",))
    command = render_pods(record, record.status.assignments[0])[0]["spec"]["containers"][0]["command"]
    asked = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["engines"][0]["options"]
    assert TOLD["options"] == asked
    where = {"--served-model-name", "--port"}
    pairs = set(zip(command[3::2], command[4::2], strict=True))
    started = [*COMMON, *asked]
    assert {each for each in pairs if each[0] not in where} == set(zip(started[::2], started[1::2], strict=True))


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
    assert PAGE.read_text(encoding="utf-8") == as_page(TOLD, OF_EXPERTS, OF_PAIRS)


def test_an_error_that_all_loads_share_is_gone_once_one_is_known() -> None:
    exact = loops(TOLD)
    twice = [
        {**loop, "tpot_ms": {"p50": 2.0 * each.tpot.expected}} for loop, each in zip(TOLD["closed"], exact, strict=True)
    ]
    found = loops(changed(closed=twice))
    assert [each.tpot.off for each in found] == pytest.approx([-0.5] * len(found))
    assert off_after(found[2], found, "tpot") == pytest.approx(0.0)
    assert "the engine was slower than expected" in as_page(changed(closed=twice), OF_EXPERTS, OF_PAIRS)


def test_what_a_split_is_expected_to_send_over_tcp_is_what_was_measured() -> None:
    """Weft's pieces are between two sizes that were measured, and so is their rate."""
    half = replace(replica("llama-3.1-8b", "H100", Precision.BF16), wire="TCP")
    assert sent_bytes_per_second(half) == pytest.approx(expected_rate(*OF_PAIRS[:2]), rel=0.05)


def test_halves_are_sent_the_pieces_that_the_plan_says() -> None:
    for each in yaml.safe_load(PLAN.read_text(encoding="utf-8"))["pairs"]:
        told_of = dict(wires(each))
        assert told_of["UCX_TCP_TX_SEG_SIZE"] == f"{each['pieces_kib']}k"
        assert int(told_of["UCX_TCP_RX_SEG_SIZE"][:-1]) >= max(64, each["pieces_kib"])
    rendered = transports(LaunchRequest(spec(Role.Decode, kv=KVSpec(transport="TCP")), plan(shape(accelerator="H100"))))
    (tls, piece) = rendered
    assert {each["pieces_kib"] for each in OF_PAIRS} > {8, 128}
    assert piece == EnvValue("UCX_TCP_TX_SEG_SIZE", f"{WEFTS_KIB}k")
    assert set(OF_PAIRS[0]["wires"].split(",")) == set(str(tls.value).split(",")) - {"sm"}


def test_arrivals_stand_beside_the_model_and_the_twin() -> None:
    for each in arrivals(TOLD):
        measured, model = each.tpot["p50"]
        assert model == pytest.approx(measured, rel=0.8)
        assert each.twin[1] == pytest.approx(measured, rel=0.25)


def test_room_for_kv_is_read_off_the_metrics_and_off_the_memory_model() -> None:
    measured, expected = room(TOLD)
    assert measured == kv_tokens(page("vllm-0.26.0", "second"))
    assert expected < measured
    assert kv_tokens("") == 0
