"""What a refusal says about its resource: whether anybody reaches it, starts or stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from weft.apply import NameTaken
from weft.control.converging import reachable, with_problem
from weft.domain.errors import Blocked
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import ResourceKey
from weft.domain.status import Condition, PoolProgress, SplitProgress

if TYPE_CHECKING:
    from weft.domain.errors import WeftError

URL = "http://chat.team.svc:8000"
KEY = ResourceKey("InferencePool", "team", "chat", "u1")
SERVES = (Condition("Ready", "True", Explanation(Reason.Serving, "1 of 1 replicas serve")),)
STARTS = (Condition("Ready", "False", Explanation(Reason.ReplicasStarting, "0 of 1 replicas are ready")),)
POOL = PoolProgress(1, 1, 1, "", URL, SERVES)


def taken(kind: str, name: str) -> NameTaken:
    meta: dict[str, Any] = {"namespace": "team", "name": name}
    return NameTaken({"metadata": meta}, {"kind": kind, "metadata": meta})


def ready(progress: PoolProgress | SplitProgress) -> tuple[str, Reason]:
    (found,) = (each for each in progress.conditions if each.kind == "Ready")
    return found.status, found.explanation.reason


def test_no_pool_is_ready_at_an_address_of_somebody_else() -> None:
    told = reachable(POOL, KEY, taken("Service", "chat"))
    assert ("False", Reason.NameTaken) == ready(told)
    assert isinstance(told, PoolProgress)
    assert (None, 1) == (told.url, told.ready_replicas)


def test_no_split_is_either() -> None:
    told = reachable(SplitProgress(1, 1, 1, 1, 1, 1, URL, SERVES), KEY, taken("Service", "chat"))
    assert isinstance(told, SplitProgress)
    assert (("False", Reason.NameTaken), None, None) == (ready(told), told.url, told.serving_generation)


@pytest.mark.parametrize(
    "problem",
    [None, taken("PodDisruptionBudget", "chat"), taken("Pod", "chat-1f3a2-0-0"), taken("Service", "chat-ranks")],
    ids=["nothing", "its budget", "a pod", "names of ranks"],
)
def test_whatever_else_is_taken_requests_arrive(problem: WeftError | None) -> None:
    assert POOL == reachable(POOL, KEY, problem)


def test_nothing_is_said_to_start_of_what_is_refused() -> None:
    """Whoever reads only `Ready` is told, too."""
    starting = PoolProgress(1, 0, 0, "", None, STARTS)
    told = with_problem(starting, Blocked(Reason.PodRefused, "no new pods, says a policy"))
    assert [("Ready", "False"), ("Stalled", "True")] == [(each.kind, each.status) for each in told.conditions]
    assert {Explanation(Reason.PodRefused, "no new pods, says a policy")} == {e.explanation for e in told.conditions}
    assert SERVES == with_problem(POOL, Blocked(Reason.PodRefused, "no new pods")).conditions[:1]


def test_nothing_stays_ready_in_a_namespace_that_is_being_deleted() -> None:
    """Something may hold the namespace for long, and nobody looks at its pools again."""
    told = with_problem(POOL, Blocked(Reason.NamespaceTerminating, "the namespace is being deleted"))
    assert ("False", Reason.NamespaceTerminating) == ready(told)
    assert told.url is None


def test_what_is_not_ready_anyway_says_why_itself() -> None:
    starting = PoolProgress(1, 1, 0, "", None, STARTS)
    assert ("False", Reason.ReplicasStarting) == ready(reachable(starting, KEY, taken("Service", "chat")))
