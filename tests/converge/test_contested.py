"""Whom a real API server's managed fields name where others write objects of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.test_api_server import MERGE, NAMESPACE, OBJECTS, moved, sender
from weft.apply import Writer
from weft.apply.kinds import plural_of
from weft.apply.patience import AT_ONCE
from weft.apply.sending import ApiRequest, object_path
from weft.domain.action import ApplyObject
from weft.domain.errors import Blocked

if TYPE_CHECKING:
    from weft.apply import Sender

__all__ = ["sender"]  # the fixture

Json = dict[str, Any]
CONTESTS = {
    "an autoscaler on a front": ("front of a pool", "scale", {"spec": {"replicas": 7}}, "spec.replicas"),
    "another tool on a front": ("front of a pool", "", {"spec": {"replicas": 7}}, "spec.replicas"),
    "another tool on a service": ("service", "", {"spec": {"selector": {"app": "other"}}}, "spec.selector"),
    "another tool on labels": (
        "budget",
        "",
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "other"}}},
        "metadata.labels.app.kubernetes.io/managed-by",
    ),
}


@pytest.mark.parametrize("case", CONTESTS)
def test_who_writes_what_we_render_is_named(sender: Sender, case: str) -> None:
    name, subresource, patch, field = CONTESTS[case]
    body = moved(OBJECTS[name])
    body["metadata"] = {**body["metadata"], "name": case.replace(" ", "-"), "ownerReferences": []}
    path = object_path(
        body["apiVersion"], plural_of(body["apiVersion"], body["kind"]), NAMESPACE, body["metadata"]["name"]
    )
    writer, told = Writer(sender, [NAMESPACE], lambda _kind, _verb: None), list[str]()
    for _ in range(4 + AT_ONCE):
        try:
            writer.carry_out(ApplyObject(body))
        except Blocked as error:
            told.append(error.message)
        other = f"{path}/{subresource}" if subresource else path
        assert sender.send(ApiRequest("PATCH", other, (("fieldManager", "rival"),), patch, MERGE)).ok
    assert 4 == len(told)
    (words,) = set(told)
    assert f" by rival ({field}) after each apply:" in words
