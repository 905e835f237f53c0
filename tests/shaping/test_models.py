"""Where a model's architecture comes from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.catalog.configs import TINY_LLAMA
from tests.shaping.cases import CATALOG
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import ModelSpec
from weft.shaping import resolve_architecture

CONFIG = json.dumps(TINY_LLAMA)


def test_the_pools_own_config_comes_before_the_catalog() -> None:
    found = resolve_architecture(ModelSpec("meta-llama/Llama-3.1-8B-Instruct", config_json=CONFIG), CATALOG)
    assert found.layers == 2


def test_without_a_config_the_catalog_answers_whatever_the_case() -> None:
    assert resolve_architecture(ModelSpec("META-LLAMA/llama-3.1-8b-instruct"), CATALOG).layers == 32


def test_an_unknown_model_names_the_command_that_helps() -> None:
    with pytest.raises(Invalid, match=r"kubectl create configmap NAME --from-file=config\.json") as caught:
        resolve_architecture(ModelSpec("acme/secret"), CATALOG)
    assert caught.value.reason is Reason.ModelUnknown
    assert "'acme/secret'" in caught.value.message


@pytest.mark.parametrize("model_id", ["acme/secret", "meta-llama/Llama-3.1-8B-Instruct"])
def test_a_config_map_that_is_not_there_is_waited_for(model_id: str) -> None:
    """Neither asked for anew, nor replaced by the catalog's entry of the same id."""
    model = ModelSpec(model_id, config_map=("secret", "config.json"))
    with pytest.raises(Blocked, match=r"kubectl create configmap secret --from-file=config\.json$") as caught:
        resolve_architecture(model, CATALOG)
    assert caught.value.reason is Reason.ModelConfigMissing
    assert resolve_architecture(replace(model, config_json=CONFIG), CATALOG).layers == 2


def test_a_missing_key_is_named_as_the_file_to_create_it_from() -> None:
    with pytest.raises(Blocked, match=r"ConfigMap secret with the key hf\.json .*--from-file=hf\.json=config\.json$"):
        resolve_architecture(ModelSpec("acme/secret", config_map=("secret", "hf.json")), CATALOG)
