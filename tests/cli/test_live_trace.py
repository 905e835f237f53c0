"""Requests drawn from what Prometheus knows of engines."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.cli.terminal import listed, node, pool, split, weft, written
from weft.cli.ends.failure import CommandFailure
from weft.cli.simulate.live_trace import Recorded, live_trace
from weft.domain.shape import EngineName
from weft.engines import series_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from weft.engines import EngineSeries

RATE, INPUT, OUTPUT = 2.0, 700.0, 90.0
VLLM = series_for(EngineName.VLLM, "0.32.0")


class Prometheus(BaseHTTPRequestHandler):
    """Steady engines: the same rates at all times that are asked for."""

    rate: ClassVar[float] = RATE
    answer: ClassVar[bytes | None] = None  # instead
    code: ClassVar[int] = 200
    queries: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.queries.append(asked["query"])
        value = self.rate * (INPUT if "prompt_tokens" in asked["query"] and "_count" not in asked["query"] else 1.0)
        value *= OUTPUT if "generation_tokens" in asked["query"] else 1.0
        times = np.arange(float(asked["start"]), float(asked["end"]), float(asked["step"]))
        values = [[at, str(value)] for at in times.tolist()] + [
            [float(asked["end"]) + 1e6, "NaN"],
            ["NaN", "1"],
            ["Inf", "1"],
        ]
        body = json.dumps({"status": "success", "data": {"result": [{"metric": {}, "values": values}]}}).encode()
        body = self.answer or body
        self.send_response(self.code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing is said."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Prometheus, "queries", [])
    with HTTPServer(("127.0.0.1", 0), Prometheus) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_rates_and_mean_lengths_are_those_of_the_engines(url: str) -> None:
    trace = live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)
    assert trace.rate == pytest.approx(RATE, rel=0.05)
    assert trace.inputs.mean() == pytest.approx(INPUT, rel=0.05)
    assert trace.outputs.mean() == pytest.approx(OUTPUT, rel=0.05)
    assert (np.diff(trace.arrivals) >= 0).all()


def test_only_pods_of_the_pool_are_asked_for(url: str) -> None:
    live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)
    assert 3 == len(Prometheus.queries)
    assert all('{namespace="team",pod=~"chat-[0-9a-f]{5}-[0-9]+-[0-9]+"}' in each for each in Prometheus.queries)


@pytest.mark.parametrize(("engine", "version"), [(EngineName.SGLang, "0.5.10"), (EngineName.TensorRTLLM, "1.3.0")])
def test_other_engines_are_asked_for_what_they_count(url: str, engine: EngineName, version: str) -> None:
    series = series_for(engine, version)
    trace = live_trace(Recorded(url, 1.0, "team", "chat", series), 7)
    assert trace.inputs.mean() == pytest.approx(INPUT, rel=0.05)
    assert trace.outputs.mean() == pytest.approx(OUTPUT, rel=0.05)
    assert all(str(name) in query for name, query in zip(asked_of(series), Prometheus.queries, strict=True))


def asked_of(series: EngineSeries) -> tuple[str | None, ...]:
    return series.finished, series.input_tokens, series.output_tokens


def test_an_engine_that_counts_no_tokens_is_told(url: str) -> None:
    with pytest.raises(CommandFailure, match="pool chat do not count tokens"):
        live_trace(Recorded(url, 1.0, "team", "chat", series_for(EngineName.TensorRTLLM, "1.2.0")), 7)


def test_the_same_seed_draws_the_same(url: str) -> None:
    first, again, other = (live_trace(Recorded(url, 0.5, "team", "chat", VLLM), seed) for seed in (1, 1, 2))
    assert np.array_equal(first.inputs, again.inputs)
    assert len(first) != len(other) or not np.array_equal(first.inputs, other.inputs)


def test_a_pool_without_requests_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prometheus, "rate", 0.0)
    with pytest.raises(CommandFailure, match="no request of pool chat in namespace team") as refused:
        live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)
    assert 2 == refused.value.exit_code


def test_more_requests_than_can_be_drawn_are_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prometheus, "rate", 1e12)
    with pytest.raises(CommandFailure, match=r"there are 3\.6e\+15 requests: take fewer --hours"):
        live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)


@pytest.mark.parametrize("answer", [b"<html>", b"[" * 100_000, b'{"status": "error"}'], ids=["a page", "deep", "error"])
def test_what_does_not_answer_with_rates_is_no_prometheus(
    url: str, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(Prometheus, "answer", answer)
    with pytest.raises(CommandFailure, match=r"Prometheus at 127\.0\.0\.1 does not answer") as refused:
        live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)
    assert 3 == refused.value.exit_code


@pytest.mark.parametrize(("code", "answer"), [(401, b"no"), (422, b'{"error": "too many samples"}')])
def test_what_prometheus_says_instead_of_rates_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch, code: int, answer: bytes
) -> None:
    """It does answer: that it does not sent people to look for its address."""
    monkeypatch.setattr(Prometheus, "code", code)
    monkeypatch.setattr(Prometheus, "answer", answer)
    with pytest.raises(
        CommandFailure, match=rf"Prometheus at 127\.0\.0\.1 refuses: .*{code}.*{answer.decode()}"
    ) as refused:
        live_trace(Recorded(url, 1.0, "team", "chat", VLLM), 7)
    assert 3 == refused.value.exit_code


def test_the_command_simulates_them(tmp_path: Path, url: str) -> None:
    files = written(tmp_path / "pool.yaml", pool()), written(tmp_path / "nodes.yaml", listed(node("board-0")))
    asked = ("simulate", "-f", files[0], "--fabric", files[1], "--from-prometheus", url, "--hours", "0.1", "-o", "json")
    ending = weft(*asked)
    assert ending.code == 0, ending.err
    found = json.loads(ending.out)
    assert "last 0.1 h in 127.0.0.1" == found["trace"]
    assert found["completed"] == found["requests"] > 300


def test_each_of_several_resources_gets_what_its_own_engines_counted(tmp_path: Path, url: str) -> None:
    files = written(tmp_path / "both.yaml", pool(), split()), written(tmp_path / "nodes.yaml", listed(node("board-0")))
    asked = ("simulate", "-f", files[0], "--fabric", files[1], "--from-prometheus", url, "--hours", "0.1", "-o", "json")
    ending = weft(*asked)
    assert ending.code == 0, ending.err
    chat, reasoner = json.loads(ending.out)["resources"]
    assert all(each["completed"] == each["requests"] > 300 for each in (chat, reasoner))
    assert {"chat", "reasoner-decode"} == {
        query.partition('pod=~"')[2].partition("-[0")[0] for query in Prometheus.queries
    }


def test_a_prometheus_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    file = written(tmp_path / "pool.yaml", pool())
    ending = weft("simulate", "-f", file, "--from-prometheus", "http://user:secret@127.0.0.1:9")
    assert (3, "") == (ending.code, ending.out)
    assert "Prometheus at 127.0.0.1 does not answer" in ending.sentence
    assert "secret" not in ending.err


def test_one_source_of_requests_is_enough(tmp_path: Path) -> None:
    file = written(tmp_path / "pool.yaml", pool())
    ending = weft("simulate", "-f", file, "--trace", "poisson", "--from-prometheus", "http://prometheus:9090")
    assert (2, "") == (ending.code, ending.out)
    assert "--trace and --from-prometheus both give the requests: use one of them" in ending.sentence


def test_hours_of_no_prometheus_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "pool.yaml", pool())
    ending = weft("simulate", "-f", file, "--trace", "poisson:seconds=60", "--hours", "2")
    assert (2, "") == (ending.code, ending.out)
    assert "--hours goes with --from-prometheus" in ending.sentence
