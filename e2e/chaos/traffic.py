"""Closed-loop clients that count every token: a stream that is cut ends with HTTP 200, too."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from e2e.team import Json

TIMEOUT_SECONDS = 180.0  # without a byte
TOKENS = (100, 100, 120, 150, 100, 200, 100, 120, 150, 400)  # asked in turn: most streams short, one of ten long
PROMPT_BYTES = 240  # tokens of the byte tokenizer; above what vLLM rather computes again than fetches (64)
_PAUSE_AFTER_FAILURE_SECONDS = 0.5
# The router's own id of a request, which vLLM puts into the id of its answer.
_PAIR = re.compile(r"prefill_addr_(?P<prefill>[\d.]+):\d+___decode_addr_(?P<decode>[\d.]+):\d+")


@dataclass(frozen=True, slots=True)
class Result:
    """One request; times are monotonic seconds, addresses those of the pods that the router chose."""

    number: int
    asked: int
    started: float
    ended: float
    first_token: float | None
    tokens: int
    counted: int
    prefill: str
    decode: str
    error: str

    @property
    def whole(self) -> bool:
        """Whether every token that was asked for came, by the engine's count and by ours."""
        return not self.error and self.tokens == self.counted == self.asked

    @property
    def refused(self) -> bool:
        """Whether not even the head of an answer came."""
        return self.error.startswith(RefusedError.__name__)

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def was_on(self, address: str) -> bool:
        """Whether that pod had to do with it, by the router's choice or by what it says of the failure."""
        return address in {self.prefill, self.decode} or f"{address}:" in self.error

    def during(self, start: float, end: float) -> bool:
        """Whether any of it happened in that time."""
        return self.started < end and self.ended > start


@dataclass(slots=True)
class _Stream:
    """What has come of one answer so far."""

    identity: str = ""
    tokens: int = 0
    counted: int = 0
    first_token: float | None = None
    finished: str = ""
    done: bool = False

    def take(self, data: str) -> None:
        """One event of the stream."""
        if data == "[DONE]":
            self.done = True
            return
        chunk: Json = json.loads(data)
        if "error" in chunk:
            raise StreamError(json.dumps(chunk["error"]))
        self.identity = chunk.get("id") or self.identity
        self.tokens = (chunk.get("usage") or {}).get("completion_tokens", self.tokens)
        for choice in chunk.get("choices", ()):
            self._count(choice)

    def _count(self, choice: Json) -> None:
        self.counted += len(choice.get("token_ids") or ())
        self.finished = choice.get("finish_reason") or self.finished
        if self.counted and self.first_token is None:
            self.first_token = time.monotonic()


class StreamError(Exception):
    """The server said in words that it will not answer, or not go on."""


class RefusedError(StreamError):
    """The status of its answer is an error."""


@dataclass(slots=True)
class Traffic:
    """So many streams at any time, each followed by the next at once; a context from the first to the last.

    `lengths` are what they ask for in turn, in tokens.
    """

    host: str
    port: int
    streams: int = 8
    lengths: Sequence[int] = TOKENS
    results: list[Result] = field(default_factory=list)
    seed: int = 1
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Self:
        """Start, each stream with a length of its own, so that they do not end together."""
        self._threads = [threading.Thread(target=self._run, name=f"stream-{n}") for n in range(self.streams)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let what is in flight end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            result = self._ask(next(self._numbers))
            self.results.append(result)
            if result.error:
                self._stop.wait(_PAUSE_AFTER_FAILURE_SECONDS)

    def _ask(self, number: int) -> Result:
        asked, started = self.lengths[number % len(self.lengths)], time.monotonic()
        stream, error = _Stream(), ""
        try:
            self._read(stream, number, asked)
            if not stream.done or stream.finished != "length":
                error = (
                    f"cut: finish_reason {stream.finished or 'none'}, [DONE] {'seen' if stream.done else 'not seen'}"
                )
        except (OSError, http.client.HTTPException, ValueError, StreamError) as failure:
            error = repr(failure)
        found = _PAIR.search(stream.identity) or _PAIR.search(error)
        prefill, decode = (found["prefill"], found["decode"]) if found else ("", "")
        ended = time.monotonic()
        return Result(
            number, asked, started, ended, stream.first_token, stream.tokens, stream.counted, prefill, decode, error
        )

    def _read(self, stream: _Stream, number: int, asked: int) -> None:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_SECONDS)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/completions", json.dumps(self._body(number, asked)), headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise RefusedError(f"HTTP {response.status}: {response.read()[:400].decode(errors='replace')}")
            for line in response:
                if line.startswith(b"data: "):
                    stream.take(line.removeprefix(b"data: ").decode().strip())
        finally:
            connection.close()

    def _body(self, number: int, asked: int) -> dict[str, Any]:
        """A prompt that no cache knows, so that its KV has to come from the prefill half."""
        draw = random.Random(self.seed * 1_000_003 + number)
        prompt = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz ", k=PROMPT_BYTES))
        return {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": asked,
            "ignore_eos": True,
            "return_token_ids": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
