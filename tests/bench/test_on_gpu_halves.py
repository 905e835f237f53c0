"""What the recorder of a GPU makes of a pair's answers, with played engines whose candidates follow from their KV."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench.on_gpu.halves import CANDIDATES, PROMPTS, TOKENS, after_a_kill, kv_travels
from bench.truth_bench.asking import Served
from tests.bench.loopback import Quiet, answering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODEL = Served("tiny", 256)


@contextmanager
def engine(held: dict[str, Sequence[int]], answers: Sequence[int] | None = None) -> Iterator[str]:
    """One that knows the KV that `held` has by name, and computes what it has not; `answers` is the KV it takes it for."""

    class Answer(Quiet):
        def answer(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told = body.get("kv_transfer_params") or {}
            name = str(len(held))
            if told.get("do_remote_decode"):
                held[name] = body["prompt"]
            known = answers or held.get(told.get("name", ""), body["prompt"])
            top = {f"w{each}": -1.0 for each in known[:CANDIDATES]}
            self._say({
                "choices": [{"logprobs": {"top_logprobs": [top]}}],
                "usage": {"completion_tokens": body["max_tokens"]},
                "kv_transfer_params": {"name": name},
            })

        def _say(self, told: dict[str, Any]) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

    with answering(Answer) as url:
        yield url


class Killed:
    """A prefill engine that takes with it what it held."""

    def __init__(self, url: str, held: dict[str, Sequence[int]]) -> None:
        self.url, self._held = url, held

    def kill(self) -> None:
        self._held.clear()


def test_candidates_are_the_same_where_the_kv_is() -> None:
    held: dict[str, Sequence[int]] = {}
    with engine(held) as prefill, engine(held) as decode:
        told = kv_travels(prefill, decode, MODEL)
    assert told["same"] == [len(set(each[:CANDIDATES])) for each in list(held.values())]
    assert max(told["others"]) < CANDIDATES / 2
    assert len(held) == PROMPTS


def test_kv_of_something_else_shows() -> None:
    held: dict[str, Sequence[int]] = {}
    with engine(held) as prefill, engine(held, answers=[300 + each for each in range(CANDIDATES)]) as decode:
        told = kv_travels(prefill, decode, MODEL)
    assert told["same"] == [0] * PROMPTS


def test_a_prompt_whose_kv_is_lost_is_answered_whole() -> None:
    held: dict[str, Sequence[int]] = {}
    with engine(held) as prefill, engine(held) as decode:
        told = after_a_kill(Killed(prefill, held), decode, MODEL)
    assert (told["asked"], told["tokens"]) == (TOKENS, TOKENS)
    assert told["same"] > CANDIDATES / 2
    assert told["seconds"] >= 0.0
