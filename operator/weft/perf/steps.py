"""Time of one engine step from its work: the time of each part at the rates that an engine reaches, added up.

For each part the larger of compute and memory time counts; near the ridge point both do, hence a soft maximum. The
formulas are plain arithmetic, so that `bench/fit_perf.py` evaluates these very lines on thousands of rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.shape import Limit
from weft.perf.replica import draft_replica
from weft.perf.work import Workshop, workshop

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.perf.replica import ReplicaModel
    from weft.perf.speculation import Speculation
    from weft.perf.work import Work

NETWORK_FRACTION = 0.9  # of a NIC's rate, at best


class Seconds(NamedTuple):
    """Seconds of a step by component, over all layers.

    `waits` is the time in which GPUs wait for the host to launch more, `bubbles` that for slower stages.
    """

    linear: float
    experts: float
    head: float
    attention: float
    activations: float
    reduces: float
    exchanges: float
    hops: float
    launch: float
    gathers: float
    waits: float = 0.0
    bubbles: float = 0.0


NOTHING = Seconds(*(0.0,) * 10)


def soft_max(one: float, other: float) -> float:
    """The larger of two times; up to a fifth more where they are close, as neither hides the other perfectly.

    The fourth root of the sum of fourth powers, by squares: this is the innermost line of all.
    """
    one, other = one * one, other * other
    total: float = (one * one + other * other) ** 0.25
    return total


def decode_seconds(work: Work, efficiency: Efficiency) -> Seconds:
    """Component times of a step that adds a token to every running sequence."""
    launch = work.layers * efficiency.layer_seconds + work.expert_layers * efficiency.moe_layer_seconds
    return Seconds(
        linear=soft_max(work.linear_read / efficiency.weights, work.linear_math / efficiency.matmul),
        experts=soft_max(work.expert_read / efficiency.weights, work.expert_math / efficiency.matmul),
        head=soft_max(work.head_read / efficiency.weights, work.head_math / efficiency.matmul),
        attention=soft_max(work.attention_read / efficiency.kv, work.attention_math / efficiency.attention),
        activations=work.activation_read / efficiency.weights,
        reduces=_reduces(work, efficiency),
        exchanges=_exchanges(work, efficiency, efficiency.exchange_bandwidth),
        hops=_hops(work, efficiency),
        launch=launch + work.steps * efficiency.step_seconds + work.sequences * efficiency.sequence_seconds,
        gathers=_gathers(work, efficiency),
    )


def bubble_seconds(work: Work, parts: Seconds, efficiency: Efficiency, drafting: float = 0.0) -> float:
    """How much longer a round of all microbatches through the slowest stage takes than one way through all stages.

    The last stage samples, and drafts for `drafting` seconds.
    """
    sampling = work.sequences * efficiency.sequence_seconds
    way = sum(parts)
    layers = way - parts.head - parts.hops - work.steps * efficiency.step_seconds - sampling
    fullest, last = work.fullest * layers, work.last * layers + parts.head + sampling + drafting
    over = work.in_flight * (larger(fullest, last) + efficiency.step_seconds) - way - drafting
    return larger(over, 0.0)


def prefill_seconds(work: Work, efficiency: Efficiency, beside: float = 0.0) -> Seconds:
    """Component times of a prompt, or of the part of it that its steps process, each of which decodes for `beside`.

    A step that no captured graph holds takes as long as the host launches it, if GPUs have computed it before. Of
    prompts that share steps some are in such steps, and the waits are the mean.
    """
    hottest = _hottest(work, efficiency)
    parts = Seconds(
        linear=soft_max(work.linear_read / efficiency.weights, work.linear_math / efficiency.prefill),
        experts=soft_max(work.expert_read / efficiency.weights, hottest / efficiency.prefill_experts),
        head=soft_max(work.head_read / efficiency.weights, work.head_math / efficiency.prefill),
        attention=work.attention_math / efficiency.attention,
        activations=work.activation_read / efficiency.weights,
        reduces=_reduces(work, efficiency),
        exchanges=_exchanges(work, efficiency, efficiency.prompt_exchange_bandwidth),
        hops=_hops(work, efficiency),
        launch=work.layers * efficiency.prefill_layer_seconds
        + work.expert_layers * efficiency.prefill_moe_layer_seconds,
        gathers=_gathers(work, efficiency),
    )
    computing = sum(parts) + work.host_steps * beside
    launching = work.host_layers * efficiency.host_layer_seconds
    return parts._replace(waits=work.launched * larger(launching - computing, 0.0))


def larger(one: float, other: float) -> float:
    """The larger of two numbers, or of each pair in two arrays."""
    return (one + other + abs(one - other)) / 2.0


def _hottest(work: Work, efficiency: Efficiency) -> float:
    """Seconds of expert matmuls on the rank that gets most tokens: natural routing loads experts unevenly."""
    return work.expert_math * (1.0 + efficiency.expert_skew * work.crowding)


def _reduces(work: Work, efficiency: Efficiency) -> float:
    """All-reduce time: the faster of one-shot, to all at once, and two-shot, which sends less but waits longer."""
    one = work.one_shot_seconds / efficiency.collective_bandwidth
    two = work.reduce_seconds / efficiency.collective_bandwidth + efficiency.two_shot_seconds
    return work.reduces * (efficiency.collective_seconds + (one + two - abs(one - two)) / 2.0)


def _exchanges(work: Work, efficiency: Efficiency, bandwidth: float) -> float:
    """Time of dispatch and combine: two latencies and the bytes of both, at this fraction of the link's bandwidth."""
    each = 2.0 * efficiency.exchange_seconds + work.exchange_seconds / bandwidth
    return work.exchanges * each


def _gathers(work: Work, efficiency: Efficiency) -> float:
    """Time of the collectives of a shared context, with the latency of all-reduces."""
    return work.gathers * efficiency.collective_seconds + work.gather_seconds / efficiency.collective_bandwidth


def _hops(work: Work, efficiency: Efficiency) -> float:
    return work.hops * (efficiency.collective_seconds + work.hop_seconds / NETWORK_FRACTION)


class StepTime(NamedTuple):
    """The time of a step: seconds in all, by component, and the inputs they came from.

    In steps that yield several `tokens` per sequence, the seconds are per token.
    """

    seconds: float
    parts: Seconds
    work: Work
    efficiency: Efficiency
    is_prefill: bool
    tokens: float = 1.0

    @property
    def step_seconds(self) -> float:
        """The whole step, however many tokens it yields: what others wait for."""
        return self.seconds * self.tokens

    @property
    def launch(self) -> float:
        """The step's launch seconds, calibrated like the whole."""
        return self.parts.launch * self.seconds / sum(self.parts)

    @property
    def waits(self) -> float:
        """Seconds in which GPUs wait for the host, calibrated like the whole."""
        return self.parts.waits * self.seconds / sum(self.parts)

    @property
    def launching(self) -> float:
        """Seconds for which the host launches what no captured graph holds, calibrated like the whole."""
        launching = self.work.host_layers * self.efficiency.host_layer_seconds
        return launching * self.seconds / sum(self.parts)

    @property
    def compute(self) -> float:
        """Seconds of the parts in which arithmetic takes longer than reading."""
        parts, work, reached = self.parts, self.work, self.efficiency
        linear = reached.prefill if self.is_prefill else reached.matmul
        experts = reached.prefill_experts if self.is_prefill else reached.matmul
        expert_math = _hottest(work, reached) if self.is_prefill else work.expert_math
        sides = (
            (parts.linear, work.linear_math / linear, work.linear_read / reached.weights),
            (parts.experts, expert_math / experts, work.expert_read / reached.weights),
            (parts.head, work.head_math / linear, work.head_read / reached.weights),
            (parts.attention, work.attention_math / reached.attention, work.attention_read / reached.kv),
        )
        return sum(seconds for seconds, math, read in sides if math >= read)

    @property
    def limit(self) -> Limit:
        """The resource that most of the step is spent on."""
        parts, compute = self.parts, self.compute
        working = parts.linear + parts.experts + parts.head + parts.attention + parts.activations
        shares = (
            (compute, Limit.Compute),
            (working - compute, Limit.MemoryBandwidth),
            (parts.reduces + parts.exchanges + parts.gathers, Limit.ScaleUpNetwork),
            (parts.hops, Limit.ScaleOutNetwork),
            (parts.launch + parts.waits + parts.bubbles, Limit.Latency),
        )
        return max(shares, key=lambda share: share[0])[1]


@dataclass(frozen=True, slots=True)
class Stepper:
    """Step times of one replica; `draft` is the draft model's work, if there is one."""

    replica: ReplicaModel
    work: Workshop
    draft: Workshop | None = None

    @property
    def host_seconds(self) -> float:
        """Seconds for which the host launches a step that no captured graph holds."""
        replica = self.replica
        return self.work.layers * replica.efficiency.host_layer_seconds * replica.calibration.prefill

    def decode(self, batch: float, context_tokens: float) -> StepTime:
        """One step in which each of `batch` sequences of the replica gets a token, at a mean context.

        With speculative decoding a step yields several tokens, and the seconds are per token.
        """
        if self.replica.speculation is not None:
            return self._speculated(self.replica.speculation, batch, context_tokens)
        work, efficiency = self.work.decode(batch, context_tokens), self.replica.efficiency
        parts = decode_seconds(work, efficiency)
        if work.in_flight > 1.0:
            parts = parts._replace(bubbles=bubble_seconds(work, parts, efficiency))
        return StepTime(sum(parts) * self._decode_factor, parts, work, efficiency, is_prefill=False)

    def prefill(
        self,
        new_tokens: float,
        cached_tokens: float,
        steps: float,
        together: float | None = None,
        beside: float = 0.0,
    ) -> StepTime:
        """Prefill of one prompt with `cached_tokens` already cached, in `steps` steps (may be a fraction of one).

        `together` data-parallel ranks (None: all) have a prompt at the same time. Each step also decodes, for `beside`
        seconds, which are no part of these.
        """
        asked, efficiency = (new_tokens, cached_tokens, steps, together), self.replica.efficiency
        work = self.work.prefill(*asked)
        parts = prefill_seconds(work, efficiency, beside)
        if self.draft is not None:  # the draft model prefills the prompt too
            parts = _added(parts, prefill_seconds(self.draft.prefill(*asked), efficiency))
        seconds = sum(parts) * self.replica.calibration.prefill
        return StepTime(seconds, parts, work, efficiency, is_prefill=True)

    def _speculated(self, speculation: Speculation, batch: float, context_tokens: float) -> StepTime:
        """A step that verifies drafted tokens, plus the drafting before it, per token yielded.

        The draft model first processes the tokens verified last, and then its own, one by one. Each of its passes is
        launched and sampled like a step.
        """
        efficiency, yielded = self.replica.efficiency, speculation.accepted
        work = self.work.decode(batch, context_tokens, speculation.verified)
        parts, drafts = decode_seconds(work, efficiency), NOTHING
        if self.draft is not None:
            together = max(1.0, work.sequences * self.work.ranks)  # of one microbatch; the draft is not pipelined
            first = decode_seconds(self.draft.decode(together, context_tokens, speculation.verified), efficiency)
            later = decode_seconds(self.draft.decode(together, context_tokens), efficiency)
            drafts = _added(first, later, speculation.tokens - 1.0)
        bubbles = bubble_seconds(work, parts, efficiency, sum(drafts)) if work.in_flight > 1.0 else 0.0
        parts = _added(parts, drafts)._replace(bubbles=bubbles)
        parts = Seconds(*(part / yielded for part in parts))
        seconds = sum(parts) * self._decode_factor
        return StepTime(seconds, parts, work, efficiency, is_prefill=False, tokens=yielded)

    @property
    def _decode_factor(self) -> float:
        return self.replica.calibration.decode


def _added(one: Seconds, other: Seconds, times: float = 1.0) -> Seconds:
    return Seconds(*(mine + times * theirs for mine, theirs in zip(one, other, strict=True)))


def stepper(replica: ReplicaModel) -> Stepper:
    """The `Stepper` of a replica."""
    draft = draft_replica(replica)
    return Stepper(replica, workshop(replica), workshop(draft) if draft is not None else None)
