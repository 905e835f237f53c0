"""What only a pair of engines has: KV that lies in an engine which is gone before it was fetched."""

from __future__ import annotations

import json
import time
import urllib.request
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from e2e.cluster.sidecar import ASKED_OF_PREFILL

if TYPE_CHECKING:
    from bench.truth_bench.asking import Served

PROMPT_TOKENS, TOKENS = 2048, 32
_FIRST_WORD = 3  # after marks of the tokenizer
_ANSWER_SECONDS = 120.0
Body = dict[str, Any]


class Dying(Protocol):
    """An engine that can be killed."""

    url: str

    def kill(self) -> None:
        """At once, without a word."""


def after_a_kill(prefill: Dying, decode: str, model: Served) -> dict[str, Any]:
    """Tokens and seconds of the decode engine's answer to a prompt that a prefill engine had computed and died with."""
    lost = _computed_by(prefill.url, _asked(model))
    prefill.kill()
    begun = time.monotonic()
    answer = _answered(decode, lost)
    seconds = round(time.monotonic() - begun, 3)
    return {"asked": TOKENS, "tokens": answer["usage"]["completion_tokens"], "seconds": seconds}


def _asked(model: Served) -> Body:
    chance = Random(PROMPT_TOKENS)
    prompt = [chance.randrange(_FIRST_WORD, model.tokens) for _ in range(PROMPT_TOKENS)]
    return {"model": model.name, "prompt": prompt, "max_tokens": TOKENS, "ignore_eos": True}


def _computed_by(prefill: str, body: Body) -> Body:
    """The same request, and where the KV of its prompt lies."""
    first = _answered(prefill, {**body, "max_tokens": 1, "kv_transfer_params": ASKED_OF_PREFILL})
    return {**body, "kv_transfer_params": first["kv_transfer_params"]}


def _answered(url: str, body: Body) -> Body:
    """Raises `urllib.error.URLError` where the engine refuses or is gone."""
    request = urllib.request.Request(  # noqa: S310 - our own engine
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
        return dict(json.load(answer))
