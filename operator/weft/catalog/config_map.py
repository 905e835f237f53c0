"""A model's config.json that should come from a ConfigMap, but is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from weft.domain.spec import ModelSpec

USUAL_KEY = "config.json"


def missing_config(model: ModelSpec) -> Explanation | None:
    """What to create if the ConfigMap that the model names, or the key in it, was not found; else None.

    The catalog's entry is no substitute: whoever names a config does not mean another one.
    """
    if model.config_map is None or model.config_json is not None:
        return None
    name, key = model.config_map
    file = USUAL_KEY if key == USUAL_KEY else f"{key}={USUAL_KEY}"
    return Explanation(
        Reason.ModelConfigMissing,
        f"ConfigMap {name} with the key {key} does not exist in this namespace or cannot be read: "
        f"kubectl create configmap {name} --from-file={file}",
    )
