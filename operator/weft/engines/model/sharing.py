"""What decides whether GPUs of a replica may share a context (DCP) or prompts (PCP), whatever the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.model import GroupedAttention, LatentAttention, kv_copies
from weft.engines.model.speculative import speculative_wish
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.model import Architecture, Mixer
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec
    from weft.engines.terms.versions import Version


@dataclass(frozen=True, slots=True)
class Sharing:
    """A shape and what decides on its context parallelism: engine version, kind of accelerator, model and pool spec."""

    shape: Shape
    spec: PoolSpec
    architecture: Architecture
    version: str
    vendor: str
    generation: str

    @property
    def drafts(self) -> str:
        """The method of speculative decoding; empty if there is none."""
        wish = speculative_wish(self.spec.engine.speculative_json)
        return wish.method if wish is not None else ""

    @property
    def whole(self) -> bool:
        """Whether all layers keep the whole context and attend to all of it."""
        return _keeps_all_of(self.architecture)

    @property
    def others(self) -> str:
        """What a model has whose layers do not."""
        return f"{self.architecture.model_id} has windows, recurrences or a token selector"

    def is_before(self, version: Version) -> bool:
        """Whether the engine is older than `version`."""
        return parse_version(self.version) < version

    def too_old(self, lacks: str, since: Version) -> str:
        """The sentence about an engine that is older than what it lacks."""
        return f"version {self.version} {lacks}; allowed: {'.'.join(map(str, since))} or later, or 1"

    def copies_claim(self) -> tuple[bool, str]:
        """(Whether the size of DCP does not divide the copies of the KV cache in a tensor group, the sentence)."""
        among, tensor = self.shape.decode_context_parallel, self.shape.tensor_parallel
        copies = shared_copies(self.architecture, tensor)
        allowed = ", ".join(str(size) for size in range(1, copies + 1) if copies % size == 0)
        keeps = f"TP {tensor} keeps {copies} {'copies' if copies > 1 else 'copy'} of the KV cache"
        return copies % among != 0, f"{keeps}, and DCP {among} must divide that number; allowed: {allowed}"


def shared_copies(architecture: Architecture, tensor_parallel: int) -> int:
    """How many GPUs of a tensor group could share a context: those with copies of the same KV heads; 1 if none can.

    Engines share neither sliding windows nor recurrent states, and keep what a selector reads in a format of its own.
    """
    if not _keeps_all_of(architecture):
        return 1
    mixers = (block.mixer for block in architecture.blocks if block.mixer is not None)
    return min((kv_copies(mixer, tensor_parallel) for mixer in mixers), default=1)


def _keeps_all_of(architecture: Architecture) -> bool:
    return all(_keeps_all(block.mixer) for block in architecture.blocks if block.mixer is not None)


def _keeps_all(mixer: Mixer) -> bool:
    """Whether layers of this kind keep the whole context and attend to all of it."""
    if isinstance(mixer, GroupedAttention):
        return mixer.window_tokens is None
    return isinstance(mixer, LatentAttention) and mixer.selector is None
