"""Whether a pool tells its engine of a longer context than the model's config states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.spec import EngineSpec

# Options of vLLM and SGLang that extend the context, and the variables that their checks of its length name.
_ARGUMENTS = ("--hf-overrides", "--rope-scaling", "--rope-parameters", "--json-model-override-args")
_VARIABLES = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")


def stretches_context(engine: EngineSpec) -> bool:
    """Whether the engine's arguments or variables extend the model's context, to a length that Weft does not know."""
    given = {argument.partition("=")[0].partition(".")[0].replace("_", "-") for argument in engine.args}
    variables = dict(engine.env)
    allowed = any(variables.get(name, "0").lower() in {"1", "true"} for name in _VARIABLES)
    return allowed or not given.isdisjoint(_ARGUMENTS)
