"""Any text reaches the API server: what users write in their own language, and what engines print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weft.apply import Sender, TokenBucket
from weft.apply.sending import APPLY_PATCH, ApiRequest, object_path

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane

TEXTS = {
    "emoji": "done \N{HUGGING FACE}\N{ROCKET}",
    "backslash": r"C:\ud83d\ude80 \\ \n",
    "colour": "\x1b[31mERROR\x1b[0m\ttab\nline",
    "control characters": "\x00\x7f\x85\x9f\u2028\ufeff\uffff",
    "languages": "模型 модель نموذج",
    "yaml": "- {a: &b [*c, !!d], 'e': \"f\"} # g | > %",
}


@pytest.fixture(scope="module")
def sender(control_plane: ControlPlane) -> Sender:
    return Sender(control_plane.api_client(), TokenBucket())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_any_text_survives_an_apply(sender: Sender, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text"}, "data": {"text": text}}
    path = object_path("v1", "configmaps", "default", "text")
    query = (("fieldManager", "weft-tests"), ("force", "true"))
    answer = sender.send(ApiRequest("PATCH", path, query, body, APPLY_PATCH))

    assert answer.ok, answer.message
    assert answer.body["data"]["text"] == text
