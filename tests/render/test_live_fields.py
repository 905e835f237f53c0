"""F6 and F7 on a real API server: what a server-side apply leaves of a field that was set and is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.test_api_server import Duo, sender
from tests.render.fields import put

if TYPE_CHECKING:
    from weft.apply import Sender

__all__ = ["sender"]

Json = dict[str, Any]
FIELDS: dict[str, Any] = {
    "model.servedNames": ["chat"],
    "model.adapters": [{"name": "legal", "source": "example/legal"}],
    "engine.env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "engine.resources": {"cpu": "4", "memory": "32Gi"},
    "kvCache.offload": {"size": "64Gi"},
    "slo.ttft": {"p95": "1s"},
    "placement.nodeSelector": {"example.com/pool": "a"},
    "placement.tolerations": [{"key": "a", "operator": "Exists"}],
    "scaling.maxGPUs": 8,
    "pod.labels": {"example.com/team": "llm"},
    "pod.imagePullSecrets": [{"name": "registry"}],
    "pod.supplementalGroups": [109],
    "prefill.pod.annotations": {"note": "text"},
    "decode.shape.tensorParallel": 2,
}


def edited(duo: Duo, patch: Json) -> Json:
    """Both halves after the user changed the spec."""
    duo.edit_split(patch)
    duo.converge()
    assert duo.look().actions == ()
    return {side: duo.child(side) for side in ("prefill", "decode")}


def taken_back(plain: Json, path: str) -> Json:
    """What the user applies to be rid of a field: its section as it was."""
    section, *rest = path.split(".")
    return put({}, path, plain[section].get(rest[0])) if section in plain else {section: None}


@pytest.mark.timeout(180)
def test_a_field_that_is_taken_back_is_gone_from_live_objects(sender: Sender) -> None:
    duo = Duo(sender, "fields", "Auto")
    duo.converge()
    before = {side: duo.child(side) for side in ("prefill", "decode")}
    plain = duo.sender.get(f"{duo.path}/{duo.name}").body["spec"]
    for path, value in FIELDS.items():
        assert edited(duo, put({}, path, value)) != before, path
        assert before == edited(duo, taken_back(plain, path)), path


@pytest.mark.timeout(180)
def test_the_way_there_leaves_no_trace_on_live_objects(sender: Sender) -> None:
    """A to B to C is A to C: one split goes through every field, the other sets the last alone."""
    around, straight = Duo(sender, "around", "Auto"), Duo(sender, "straight", "Auto")
    plain = straight.sender.get(f"{straight.path}/{straight.name}").body["spec"]
    *between, last = FIELDS
    for path in between:
        edited(around, put({}, path, FIELDS[path]))
        edited(around, taken_back(plain, path))
    patch = put({}, last, FIELDS[last])
    assert edited(straight, patch) == edited(around, patch)
