"""Resolve the architecture of a pool's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import architecture_from_config, missing_config
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.model import Architecture
    from weft.domain.spec import ModelSpec


def resolve_architecture(model: ModelSpec, catalog: Catalog) -> Architecture:
    """The architecture from the pool's own config.json where it has one, else the catalog's entry of its id.

    Raises `Invalid`: ModelUnknown with the command that adds a config, or ArchitectureUnsupported; and `Blocked`:
    ModelConfigMissing, until the ConfigMap exists.
    """
    missing = missing_config(model)
    if missing is not None:
        raise Blocked(missing.reason, missing.message)
    if model.config_json is not None:
        return architecture_from_config(model.model_id, model.config_json)
    known = catalog.architecture(model.model_id)
    if known is None:
        raise Invalid(
            Reason.ModelUnknown,
            f"spec.model.id: {catalog.unknown_model(model.model_id)}; add spec.model.config.inline or configMapRef "
            "with the model's config.json: kubectl create configmap NAME --from-file=config.json",
        )
    return known
