"""Whether a pool tells its engine of a longer context than the model's config states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.spec import EngineSpec

# The argument parsers of vLLM and of SGLang, and the variables that their checks of the context's length name.
_ARGUMENTS = ("--hf-overrides", "--rope-scaling", "--rope-parameters", "--json-model-override-args")
_VARIABLES = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")


def stretches_context(engine: EngineSpec) -> bool:
    """Whether arguments or variables of the engine stretch what the model takes, by how much nobody here knows."""
    given = {argument.partition("=")[0].partition(".")[0].replace("_", "-") for argument in engine.args}
    variables = dict(engine.env)
    allowed = any(variables.get(name, "0").lower() in {"1", "true"} for name in _VARIABLES)
    return allowed or not given.isdisjoint(_ARGUMENTS)
