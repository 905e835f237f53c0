"""Refusal of declared lengths beyond the model's context: the first check that fails gives the message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.engines.model.context import stretches_context

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pool's spec beside its model's limits. `most` is the tokens of a prompt and its answer together."""

    spec: PoolSpec
    model: str
    context: int
    most: int

    @property
    def takes(self) -> str:
        """The limit in words: who sets it, and how many tokens."""
        by_hand = self.spec.model.max_context_tokens is not None
        whose = "spec.model.maxModelLen allows" if by_hand else f"{self.model} takes"
        return f"{whose} {self.most} tokens, prompt and answer together"


Claim = Callable[[_Asked], str | None]


def refuse_lengths(spec: PoolSpec, architecture: Architecture) -> None:
    """Raise `Invalid` (ContextExceeded) if the declared lengths exceed the context of the model.

    If the engine's arguments extend the context, that is trusted: only `maxModelLen` limits it.
    """
    context, wished = architecture.max_context_tokens, spec.model.max_context_tokens
    if stretches_context(spec.engine):
        context = wished or max(context, _longest(spec))
    asked = _Asked(spec, architecture.model_id, context, wished or context)
    why = next((found for claim in _CLAIMS if (found := claim(asked)) is not None), None)
    if why is not None:
        raise Invalid(Reason.ContextExceeded, why)


def _the_model_has_that_context(asked: _Asked) -> str | None:
    wished = asked.spec.model.max_context_tokens
    if wished is None or wished <= asked.context:
        return None
    return (
        f"spec.model.maxModelLen {wished}: {asked.model} takes {asked.context} tokens; allowed: up to {asked.context}, "
        "or tell the engine how to stretch it with --hf-overrides in spec.engine.args"
    )


def _a_prompt_leaves_room_for_an_answer(asked: _Asked) -> str | None:
    return _too_long(asked, "inputTokens.mean", asked.spec.workload.input_tokens, asked.most - 1)


def _an_answer_leaves_room_for_a_prompt(asked: _Asked) -> str | None:
    return _too_long(asked, "outputTokens.mean", asked.spec.workload.output_tokens, asked.most - 1)


def _a_prompt_fits_with_its_answer(asked: _Asked) -> str | None:
    prompt, answer = asked.spec.workload.input_tokens, asked.spec.workload.output_tokens
    if prompt + answer <= asked.most:
        return None
    return (
        f"spec.workload.inputTokens.mean {prompt:.0f} and spec.workload.outputTokens.mean {answer:.0f} are "
        f"{prompt + answer:.0f} tokens: {asked.takes}; allowed: up to {asked.most} in all"
    )


def _long_prompts_fit(asked: _Asked) -> str | None:
    """Check a declared p95; one that is only assumed is cut to the context."""
    workload = asked.spec.workload
    tokens = workload.input_tokens_p95 if workload.input_p95_declared else 0.0
    return _too_long(asked, "inputTokens.p95", tokens, asked.most - 1)


def _long_answers_fit(asked: _Asked) -> str | None:
    workload = asked.spec.workload
    tokens = workload.output_tokens_p95 if workload.output_p95_declared else 0.0
    return _too_long(asked, "outputTokens.p95", tokens, asked.most - 1)


_CLAIMS: tuple[Claim, ...] = (
    _the_model_has_that_context,
    _a_prompt_leaves_room_for_an_answer,
    _an_answer_leaves_room_for_a_prompt,
    _a_prompt_fits_with_its_answer,
    _long_prompts_fit,
    _long_answers_fit,
)


def _too_long(asked: _Asked, field: str, tokens: float, allowed: int) -> str | None:
    if tokens <= allowed:
        return None
    return f"spec.workload.{field} {tokens:.0f}: {asked.takes}; allowed: up to {allowed}"


def _longest(spec: PoolSpec) -> int:
    """More tokens than anything that the pool declares."""
    workload = spec.workload
    return int(max(workload.input_tokens, workload.input_tokens_p95) + workload.output_tokens_p95) + 1
