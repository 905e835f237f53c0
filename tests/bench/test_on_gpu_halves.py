"""What the recorder of a GPU makes of a prompt whose KV is gone, with a played pair."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench.on_gpu.halves import PROMPT_TOKENS, TOKENS, after_a_kill
from bench.truth_bench.asking import Served
from tests.bench.loopback import Quiet, answering

if TYPE_CHECKING:
    from collections.abc import Iterator

Asked = list[dict[str, Any]]


@contextmanager
def engine(asked: Asked, recomputes: int = TOKENS) -> Iterator[str]:
    """One that tells where KV lies, and answers a prompt whose KV is gone with so many tokens."""

    class Answer(Quiet):
        def answer(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            fetches = body["kv_transfer_params"] == {"there": 7}
            tokens = recomputes if fetches else body["max_tokens"]
            self.send_response(200)
            self.end_headers()
            told = {"usage": {"completion_tokens": tokens}, "kv_transfer_params": {"there": 7}}
            self.wfile.write(json.dumps(told).encode())

    with answering(Answer) as url:
        yield url


class Killed:
    """A prefill engine that notes how often it was asked before it was killed."""

    def __init__(self, url: str, asked: Asked) -> None:
        self.url, self._asked = url, asked

    def kill(self) -> None:
        self.asked_before = len(self._asked)


def test_a_prompt_is_computed_before_its_engine_is_killed_and_fetched_after() -> None:
    asked: Asked = []
    with engine(asked) as url:
        killed = Killed(url, asked)
        told = after_a_kill(killed, url, Served("tiny", 256))
    first, second = asked
    assert killed.asked_before == 1
    assert (first["max_tokens"], second["max_tokens"]) == (1, TOKENS)
    assert first["kv_transfer_params"]["do_remote_decode"]
    assert first["prompt"] == second["prompt"]
    assert len(first["prompt"]) == PROMPT_TOKENS
    assert (told["asked"], told["tokens"]) == (TOKENS, TOKENS)


def test_an_answer_that_is_cut_is_told() -> None:
    asked: Asked = []
    with engine(asked, recomputes=3) as url:
        told = after_a_kill(Killed(url, asked), url, Served("tiny", 256))
    assert (told["asked"], told["tokens"]) == (TOKENS, 3)
