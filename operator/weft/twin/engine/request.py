"""One request inside an engine, with the state that the engine keeps on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class RequestStage(Enum):
    """Where a request is. `Fetching`: its KV is on the way from prefill; `Kept`: answered, its KV not fetched yet."""

    Waiting = "waiting"
    Fetching = "fetching"
    Fetched = "fetched"
    Prompt = "prompt"
    Decoding = "decoding"
    Kept = "kept"
    Answered = "answered"
    Cancelled = "cancelled"


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """A prompt and the number of tokens to generate. Times are seconds of the simulation's clock.

    `hashes` identify successive groups of tokens of the prompt, and then of the answer if there are more: requests with
    the same ones share KV. `remote`: a prefill engine has the prompt's KV, which has to be fetched. `keeps_kv`: this is
    the prefill side, which keeps the KV until it is released.

    The engine writes the rest. It is one mutable record for speed: a day has more than a million of them.
    """

    arrived: float
    input_tokens: int
    output_tokens: int
    hashes: Sequence[int] = ()
    remote: bool = False
    keeps_kv: bool = False
    stage: RequestStage = RequestStage.Waiting
    scheduled_at: float = -1.0
    first_token_at: float = -1.0
    last_token_at: float = -1.0
    cached_tokens: int = 0
    preemptions: int = 0
    made: int = 0  # generated tokens; while it decodes, those before it joined the batch
    computed: int = 0  # tokens with KV in memory; not updated while it decodes
    turn: int = -1  # its place in the order of admission
    joined: int = 0  # number of the step with which it joined the batch
    grows_at: int = 0  # step modulo block size at which it needs another block
    hashed: int = 0  # number of groups offered to the prefix cache
    api_seconds: float = 0.0  # API server and tokeniser: delays all of its tokens
    shared: list[int] = field(default_factory=list)  # hashes of the prefix-cache groups that it holds

    @property
    def queue(self) -> float:
        """Seconds from arrival until it was first scheduled."""
        return self.scheduled_at - self.arrived

    @property
    def ttft(self) -> float:
        """Seconds from arrival until its first token."""
        return self.first_token_at - self.arrived + self.api_seconds

    @property
    def tpot(self) -> float:
        """Mean seconds between tokens; 0 for a single one, as vLLM counts it."""
        gaps = self.made - 1
        return (self.last_token_at - self.first_token_at) / gaps if gaps > 0 else 0.0

    @property
    def latency(self) -> float:
        """Seconds from arrival until its last token."""
        return self.last_token_at - self.arrived + self.api_seconds
