"""vLLM on a GPU beside what Weft expects: what it is started with, who asks it, and what the page makes of figures."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from bench.on_gpu.__main__ import MEASURED, PAGE
from bench.on_gpu.compared import arrivals, loops, off_after, room
from bench.on_gpu.loads import Crowd, Lengths
from bench.on_gpu.page import as_page
from bench.on_gpu.plan import COMMON, PLAN
from bench.on_gpu.reading import kv_tokens
from bench.truth_bench.asking import Served
from tests.bench.test_engine_truth import streaming
from tests.observe.pages import page
from tests.render.pools import plan, pool, shape, spec
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import EngineSpec
from weft.render import render_pods

TOLD: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))


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


def test_lengths_lie_between_four_fifths_of_the_nominal_ones_and_all_of_them() -> None:
    found = list(Lengths(1000, 100).drawn(500, seed=3))
    assert found == list(Lengths(1000, 100).drawn(500, seed=3))
    prompts = [each for each, _ in found]
    assert 800 <= min(prompts) <= 805
    assert 995 <= max(prompts) <= 1000
    assert {each for _, each in found} == set(range(80, 101))


def test_the_page_is_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == as_page(TOLD)


def test_an_error_that_all_loads_share_is_gone_once_one_is_known() -> None:
    exact = loops(TOLD)
    twice = [
        {**loop, "tpot_ms": {"p50": 2.0 * each.tpot.expected}} for loop, each in zip(TOLD["closed"], exact, strict=True)
    ]
    found = loops(changed(closed=twice))
    assert [each.tpot.off for each in found] == pytest.approx([-0.5] * len(found))
    assert off_after(found[2], found, "tpot") == pytest.approx(0.0)
    assert "was slower than expected" in as_page(changed(closed=twice))


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
