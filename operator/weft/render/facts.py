"""Facts from the catalog that rendering needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import architecture_from_config, load, missing_config
from weft.domain.errors import Blocked

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.shape import EngineName, Shape
    from weft.domain.spec import ModelSpec


def device_resource(shape: Shape) -> str:
    """The extended resource that a pod requests, such as `nvidia.com/gpu`."""
    return load().accelerator(shape.accelerator).resource


def router_image(engine: EngineName) -> str:
    """The image of an engine's router."""
    return load().engine(engine).router_image


def sidecar_image(engine: EngineName) -> str:
    """The image of the sidecar that forwards requests from a Gateway to a split's halves; empty if there is none."""
    return load().engine(engine).sidecar_image


def checkpoint_precision(model: ModelSpec) -> Precision | None:
    """The precision of the published weights, None if the model is unknown.

    Raises `Blocked` while the ConfigMap with its config is missing: a guess could load them in another precision.
    """
    missing = missing_config(model)
    if missing is not None:
        raise Blocked(missing.reason, missing.message)
    if model.config_json is not None:
        return architecture_from_config(model.model_id, model.config_json).checkpoint_precision
    known = load().architecture(model.model_id)
    return known.checkpoint_precision if known is not None else None
