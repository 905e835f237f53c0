"""A patch of a pod that conflicts: another pod has the name, or this one was written to faster than the server retries.

The API server answers 409 to both. The second leaves everything to do: an engine that is deleted next would still be
chosen by its front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.apply.test_sending import GATED, Outbox, as_it_is
from tests.protocol.scripted_server import ScriptedServer
from weft.apply import PodContended
from weft.domain import labels
from weft.domain.action import LabelPod, ReleasePods, UnroutePod
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.action import Action

Json = dict[str, Any]
ROUTED = {labels.ROUTED: "true"}
MODIFIED = 'Operation cannot be fulfilled on pods "p": the object has been modified'

UNROUTED, RELEASED = UnroutePod("team", "p", "ua", 0.0), ReleasePods("team", (("p", "ua"),))
LABELLED = LabelPod("team", "p", "ua", tuple(ROUTED.items()), 0.0)


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with ScriptedServer() as server:
        yield Outbox(server)


@pytest.mark.parametrize(
    ("action", "pod"),
    [
        (UNROUTED, {"metadata": {"uid": "ua", "labels": ROUTED}}),
        (RELEASED, {"metadata": {"uid": "ua"}, "spec": GATED}),
        (LABELLED, {"metadata": {"uid": "ua"}}),
    ],
    ids=["routed", "gated", "unlabelled"],
)
def test_what_is_left_to_do_is_tried_again(outbox: Outbox, action: Action, pod: Json) -> None:
    as_it_is(outbox, 409, pod, MODIFIED)
    with pytest.raises(PodContended) as conflict:
        outbox.writer.carry_out(action)
    assert (Reason.StatusConflict, MODIFIED) == (conflict.value.reason, str(conflict.value))


@pytest.mark.parametrize(
    ("action", "pod"),
    [
        (UNROUTED, {"metadata": {"uid": "ub", "labels": ROUTED}}),
        (UNROUTED, {"metadata": {"uid": "ua"}}),
        (RELEASED, {"metadata": {"uid": "ub"}, "spec": GATED}),
        (RELEASED, {"metadata": {"uid": "ua"}, "spec": {}}),
        (LABELLED, {"metadata": {"uid": "ub"}}),
        (LABELLED, {"metadata": {"uid": "ua", "labels": ROUTED}}),
    ],
)
def test_another_pod_of_that_name_and_what_is_done_are_left_alone(outbox: Outbox, action: Action, pod: Json) -> None:
    as_it_is(outbox, 409, pod, MODIFIED)
    outbox.writer.carry_out(action)
    assert [] == outbox.counted
