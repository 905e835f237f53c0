"""One request inside an engine, and what an engine writes on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stage(Enum):
    """Where a request is. `Fetching` waits for KV that a prefill engine has; `Kept` is answered, its KV not fetched."""

    Waiting = "waiting"
    Fetching = "fetching"
    Fetched = "fetched"
    Prompt = "prompt"
    Decoding = "decoding"
    Kept = "kept"
    Answered = "answered"
    Cancelled = "cancelled"


@dataclass(slots=True, eq=False)
class Request:
    """A prompt, and so many tokens to answer. Times are seconds of the simulation's clock.

    `hashes` name what groups of tokens the prompt begins with, and the answer after it if they are more: requests with
    the same ones share KV. `remote`: the KV of the prompt is with a prefill engine and has to be fetched. `keeps_kv`:
    this is that engine, and keeps the KV until it is released.

    The rest is written by the engine. It is one mutable record for speed: a day has more than a million of them.
    """

    arrived: float
    input_tokens: int
    output_tokens: int
    hashes: Sequence[int] = ()
    remote: bool = False
    keeps_kv: bool = False
    stage: Stage = Stage.Waiting
    scheduled_at: float = -1.0
    first_token_at: float = -1.0
    last_token_at: float = -1.0
    cached_tokens: int = 0
    preemptions: int = 0
    made: int = 0  # tokens of the answer; while it decodes, those from before it joined the batch
    computed: int = 0  # tokens whose KV has room; not kept up to date while it decodes
    turn: int = -1  # its place in the order in which requests were let in
    joined: int = 0  # step with which it joined the batch
    grows_at: int = 0  # of the steps of a block, the one in which it needs another block
    hashed: int = 0  # groups that were offered to the prefix cache
    api_seconds: float = 0.0  # beside its steps: every token of it is so much later than the engine has it
    shared: list[int] = field(default_factory=list)  # groups of the prefix cache that it holds

    @property
    def queue(self) -> float:
        """Seconds until it was let in."""
        return self.scheduled_at - self.arrived

    @property
    def ttft(self) -> float:
        """Seconds until its first token."""
        return self.first_token_at - self.arrived + self.api_seconds

    @property
    def tpot(self) -> float:
        """Mean seconds between tokens; 0 for a single one, as vLLM counts it."""
        gaps = self.made - 1
        return (self.last_token_at - self.first_token_at) / gaps if gaps > 0 else 0.0

    @property
    def latency(self) -> float:
        """Seconds until its last token."""
        return self.last_token_at - self.arrived + self.api_seconds
