"""What one replica can do: how long its steps take, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.twin.engine.steps import StepTable


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """Step times and limits of one engine.

    `max_batch` and `batched_tokens` are vLLM's `--max-num-seqs` and `--max-num-batched-tokens`. One hash of a request
    stands for `hash_tokens` tokens, which are whole blocks; 0 means one block. KV of remote prompts comes over one
    link, one prompt after the other: it takes `transfer_seconds_per_token`, over `transfer_beside_others` where it
    comes while another's is under way, and `transfer_seconds` more until it can be used. `request_seconds` is the time
    of a request beside its steps, in the API server and the tokeniser: it delays the request's tokens, and no other
    request. A prompt and its answer have at most `context_tokens` together; 0: as many as fit into memory.
    """

    steps: StepTable
    max_batch: int
    kv_tokens: int
    batched_tokens: int = 8192
    block_tokens: int = 16
    hash_tokens: int = 0
    transfer_seconds: float = 0.0
    transfer_seconds_per_token: float = 0.0
    transfer_beside_others: float = 1.0
    request_seconds: float = 0.0
    context_tokens: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` for limits that no engine accepts."""
        if not 0 < self.max_batch <= self.batched_tokens:
            raise ValueError("a step needs room for a token of every sequence")
        if self.group_tokens % self.block_tokens:
            raise ValueError("a hash stands for whole blocks")
        if self.kv_blocks < 1:
            raise ValueError("there is no block of KV memory")

    @property
    def group_tokens(self) -> int:
        """Tokens that one hash stands for."""
        return self.hash_tokens or self.block_tokens

    @property
    def kv_blocks(self) -> int:
        """Whole blocks that fit into KV memory."""
        return self.kv_tokens // self.block_tokens
