"""What only a pair of engines does: KV that comes from another one, and what becomes of it when that one is gone.

Weights are random, so that an answer says nothing. What the first token could have been does: its likeliest candidates
are the same where the KV of the prompt is, and others for another prompt with the same end.
"""

from __future__ import annotations

import json
import time
import urllib.request
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from e2e.cluster.sidecar import ASKED_OF_PREFILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.truth_bench.asking import Served

PROMPTS, PROMPT_TOKENS, SAME_END, CANDIDATES, TOKENS = 8, 2048, 16, 20, 32
_FIRST_WORDS = 3  # marks of the tokenizer
_ANSWER_SECONDS = 120.0
Answer = dict[str, Any]


class Dying(Protocol):
    """An engine that can be killed."""

    url: str

    def kill(self) -> None:
        """At once, without a word."""


def kv_travels(prefill: str, decode: str, model: Served) -> dict[str, Any]:
    """Per prompt, how many candidates for the first token are the same with fetched KV as where it was computed.

    `others` are those in common with another prompt of the same end: what is left of it without the right KV.
    """
    prompts = _prompts(model)
    fetched = [_candidates(_answered(decode, fetching(prefill, model, each))) for each in prompts]
    computed = [_candidates(_answered(prefill, asked(model, each))) for each in prompts]
    strangers = computed[1:] + computed[:1]
    return {
        "candidates": CANDIDATES,
        "same": [len(one & other) for one, other in zip(fetched, computed, strict=True)],
        "others": [len(one & other) for one, other in zip(fetched, strangers, strict=True)],
    }


def after_a_kill(prefill: Dying, decode: str, model: Served) -> dict[str, Any]:
    """A prompt whose KV lies in an engine that is killed before it was fetched: what the decode engine answers."""
    prompt = _prompts(model)[0][::-1]
    lost = fetching(prefill.url, model, prompt)
    computed = _candidates(_answered(prefill.url, asked(model, prompt)))
    prefill.kill()
    begun = time.monotonic()
    answer = _answered(decode, lost)
    return {
        "asked": TOKENS,
        "tokens": answer["usage"]["completion_tokens"],
        "seconds": round(time.monotonic() - begun, 3),
        "same": len(_candidates(answer) & computed),
    }


def asked(model: Served, prompt: Sequence[int]) -> dict[str, Any]:
    """The body of one request."""
    return {
        "model": model.name,
        "prompt": list(prompt),
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0.0,
        "logprobs": CANDIDATES,
    }


def fetching(prefill: str, model: Served, prompt: Sequence[int]) -> dict[str, Any]:
    """The same, once the prefill engine has computed the prompt and told where its KV lies."""
    body = asked(model, prompt)
    first = _answered(prefill, {**body, "max_tokens": 1, "kv_transfer_params": ASKED_OF_PREFILL})
    return {**body, "kv_transfer_params": first["kv_transfer_params"]}


def _prompts(model: Served) -> list[list[int]]:
    """Other words each, with the same end."""
    chance = Random(PROMPTS)
    words = [[chance.randrange(_FIRST_WORDS, model.tokens) for _ in range(PROMPT_TOKENS)] for _ in range(PROMPTS)]
    return [[*each[:-SAME_END], *words[0][-SAME_END:]] for each in words]


def _answered(url: str, body: Answer) -> Answer:
    """Raises `urllib.error.URLError` where the engine refuses or is gone."""
    request = urllib.request.Request(  # noqa: S310 - our own engine
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
        return dict(json.load(answer))


def _candidates(answer: Answer) -> frozenset[str]:
    return frozenset(answer["choices"][0]["logprobs"]["top_logprobs"][0])
