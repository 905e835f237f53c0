"""Whether a pool tells its engine of a longer context than the model's config states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.spec import EngineSpec

# vLLM's argument parser and the variable that its check of --max-model-len names.
_ARGUMENTS = ("--hf-overrides", "--rope-scaling", "--rope-parameters")
_VARIABLE = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def stretches_context(engine: EngineSpec) -> bool:
    """Whether arguments or variables of the engine stretch what the model takes, by how much nobody here knows."""
    given = {argument.partition("=")[0].partition(".")[0].replace("_", "-") for argument in engine.args}
    return not given.isdisjoint(_ARGUMENTS) or dict(engine.env).get(_VARIABLE, "0").lower() in {"1", "true"}
