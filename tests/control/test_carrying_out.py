"""Actions in their order, those that do not wait for each other together, and what a refusal ends."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from weft.apply import PodContended, RouterKeepsOneWorker, RouterKeepsWorker, ServerError, WebhookAway
from weft.control.converging.carrying_out import Carrier, FailedPass, Held, waves
from weft.domain.action import (
    Action,
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    ForgetWorker,
    ReleasePods,
    UnroutePod,
)
from weft.domain.errors import Blocked, Retry, WeftError
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

TOGETHER_SECONDS = 10.0
QUOTA = Blocked(Reason.PodRefused, "exceeded quota")
POLICY = Blocked(Reason.RouteRefused, "a policy forbids it")
NO_POD = FailedPass(QUOTA, Held(pods=True))
AWAY = Retry(Reason.ApiUnavailable, "away")
UNASKED = WebhookAway(Reason.PodRefused, 'failed calling webhook "m.io": refused')
FAILED = ServerError("etcdserver: request is too large")
CONTENDED = PodContended("the object has been modified")
ENDING = Blocked(Reason.NamespaceTerminating, "going")


def create(number: int) -> CreatePod:
    return CreatePod({"metadata": {"name": f"p-{number}"}})


def delete(number: int) -> DeletePod:
    return DeletePod("team", f"p-{number}", f"u-{number}")


def forget(number: int, *, hurries: bool = False) -> ForgetWorker:
    routers = (("r", "10.0.0.2:30000"),)
    return ForgetWorker("team", f"p-{number}", f"u-{number}", f"10.0.1.{number}:30000", routers, hurries)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


class Cluster:
    """Remembers what was done, and refuses what it is told to."""

    def __init__(self, refused: dict[str, WeftError] | None = None) -> None:
        self.done: list[Action] = []
        self._refused = {} if refused is None else refused

    def do(self, action: Action) -> None:
        self.done.append(action)
        body = action.body if isinstance(action, CreatePod | ApplyObject) else None
        name = body["metadata"]["name"] if body is not None else getattr(action, "name", "")
        if name in self._refused:
            raise self._refused[name]


class TestWaves:
    """Pods to create and replicas to release go out together, everything else alone."""

    @pytest.mark.parametrize(
        ("pods", "largest", "sizes"),
        [(20, 8, [1, 2, 4, 13]), (5, 8, [1, 2, 2]), (20, 5, [1, 2, 4, 13]), (3, 1, [1, 2]), (1, 8, [1])],
    )
    def test_a_row_of_pods_goes_out_in_waves_that_double(self, pods: int, largest: int, sizes: list[int]) -> None:
        """As many as there are threads are under way then, without waiting for the slowest."""
        assert sizes == [len(wave) for wave in waves([create(number) for number in range(pods)], largest)]

    def test_nothing_is_lost_and_the_order_is_kept(self) -> None:
        release = ReleasePods("team", (("p", "u"),))
        actions: list[Action] = [delete(1), delete(2), release, release, create(1), create(2), create(3), delete(3)]
        found = [*waves(actions, 8)]
        assert actions == [action for wave in found for action in wave]
        assert [1, 1, 1, 1, 1, 2, 1] == [len(wave) for wave in found]


def test_what_goes_out_together_is_under_way_at_the_same_time(threads: ThreadPoolExecutor) -> None:
    """The third and fourth of a row of pods would wait here for each other for ever, were they sent in turn."""
    meeting = threading.Barrier(2, timeout=TOGETHER_SECONDS)

    def do(action: Action) -> None:
        if action in (create(1), create(2)):
            meeting.wait()

    assert Carrier(do, threads, 8).carry_out([create(0), create(1), create(2)]) is None


def test_a_used_up_quota_costs_one_refusal_and_the_rest_is_done(threads: ThreadPoolExecutor) -> None:
    cluster = Cluster({"p-0": QUOTA})
    actions: list[Action] = [delete(9), *(create(number) for number in range(50)), delete(8)]
    assert Carrier(cluster.do, threads, 8).carry_out(actions) == NO_POD
    assert [delete(9), create(0), delete(8)] == cluster.done


def test_a_refusal_is_logged_once_until_it_changes_or_is_over(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again after 1, 2, 4 ... seconds, and for ever."""
    caplog.set_level(logging.INFO, "weft")
    refused: dict[str, WeftError] = {"p-0": QUOTA}
    carrier = Carrier(Cluster(refused).do, threads, 8)
    logged = []
    for error in (QUOTA, QUOTA, POLICY, POLICY, None, POLICY):
        refused.clear()
        refused.update({} if error is None else {"p-0": error})
        carrier.carry_out([create(0)])
        logged.append(len(caplog.records))
    assert [1, 1, 2, 2, 2, 3] == logged


def test_an_object_of_the_same_name_ends_no_refusal_of_another_kind(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """Service, budget and route of a pool are named as it is, and each pass tries what was refused again."""
    caplog.set_level(logging.INFO, "weft")
    service, route = (
        ApplyObject({"apiVersion": "v1", "kind": kind, "metadata": {"name": "chat", "namespace": "team"}})
        for kind in ("Service", "HTTPRoute")
    )

    def do(action: Action) -> None:
        if action == route:
            raise POLICY

    carrier = Carrier(do, threads, 8)
    for _ in range(3):
        carrier.carry_out([route, service])
    assert [each.getMessage() for each in caplog.records] == [
        "ApplyObject of v1 HTTPRoute team/chat was refused: a policy forbids it"
    ]


@pytest.mark.parametrize("outcome", [True, False, POLICY], ids=["done", "undone by admission before", "refused"])
def test_what_is_put_back_is_told_once_it_was(threads: ThreadPoolExecutor, outcome: object) -> None:
    """An event in each minute would say so of a child that a policy or a webhook keeps as it is."""
    told, event = list[Explanation](), Explanation(Reason.ChildReverted, "it was edited and is put back")

    def do(_: Action) -> object:
        if isinstance(outcome, WeftError):
            raise outcome
        return outcome

    body = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "metadata": {"name": "duo-decode"}}
    Carrier(do, threads, 8).carry_out([ApplyObject(body, told=event)], tell=told.append)
    assert told == [event] * (outcome is True)


def test_a_refusal_in_a_wave_ends_the_creation_of_pods(threads: ThreadPoolExecutor) -> None:
    cluster = Cluster({"p-1": QUOTA})
    assert Carrier(cluster.do, threads, 8).carry_out([create(number) for number in range(50)]) == NO_POD
    assert {create(0), create(1)} <= {*cluster.done} <= {create(0), create(1), create(2)}


def test_a_refusal_among_many_leaves_the_rest_undone(threads: ThreadPoolExecutor) -> None:
    """All that is under way at that moment is answered: one request a thread."""
    cluster = Cluster({f"p-{number}": QUOTA for number in range(7, 500)})
    assert Carrier(cluster.do, threads, 8).carry_out([create(number) for number in range(500)]) == NO_POD
    assert 7 < len(cluster.done) <= 7 + 4


def test_while_the_refusal_of_a_pod_backs_off_none_is_created(threads: ThreadPoolExecutor) -> None:
    cluster = Cluster()
    assert Carrier(cluster.do, threads, 8).carry_out([create(0), delete(1)], NO_POD) is None
    assert [delete(1)] == cluster.done


def test_pods_wait_on_whatever_else_is_refused_meanwhile(threads: ThreadPoolExecutor) -> None:
    """Else a pod would be tried at every second pass of a quota that is used up."""
    cluster = Cluster({"p-9": POLICY})
    actions: list[Action] = [delete(9), create(0)]
    assert Carrier(cluster.do, threads, 8).carry_out(actions, NO_POD) == FailedPass(POLICY, Held(pods=True))
    assert [delete(9)] == cluster.done


def test_pods_wait_for_the_compute_domain_of_their_replica(threads: ThreadPoolExecutor) -> None:
    domain = ApplyObject({"kind": "ComputeDomain", "metadata": {"name": "shared"}})
    route = ApplyObject({"kind": "HTTPRoute", "metadata": {"name": "shared"}})
    for shared, created in ((domain, 0), (route, 1)):
        cluster = Cluster({"shared": QUOTA})
        found = Carrier(cluster.do, threads, 8).carry_out([shared, create(0)])
        assert found == FailedPass(QUOTA, Held(pods=shared is domain))
        assert created == cluster.done.count(create(0))


def test_a_refusal_of_something_else_holds_back_no_pod(threads: ThreadPoolExecutor) -> None:
    """A route that a policy refuses keeps nobody from growing."""
    cluster = Cluster({"p-9": QUOTA})
    actions: list[Action] = [delete(9), create(0), create(1)]
    assert Carrier(cluster.do, threads, 8).carry_out(actions) == FailedPass(QUOTA)
    assert actions == cluster.done


def test_a_pod_that_may_be_created_in_a_moment_holds_back_none(threads: ThreadPoolExecutor) -> None:
    """Else what a policy refused beside it would keep pods from being created for as long as that backs off."""
    conflict = Retry(Reason.StatusConflict, "resourcequotas has been modified")
    cluster = Cluster({"p-9": POLICY, "p-0": conflict})
    assert Carrier(cluster.do, threads, 8).carry_out([delete(9), create(0)]) == FailedPass(POLICY)


@pytest.mark.parametrize("ends", [AWAY, ENDING], ids=["the API server is away", "the namespace goes"])
def test_what_ends_the_pass(threads: ThreadPoolExecutor, ends: WeftError) -> None:
    cluster = Cluster({"p-1": ends})
    assert Carrier(cluster.do, threads, 8).carry_out([delete(1), delete(2), create(3)]) == FailedPass(ends)
    assert [delete(1)] == cluster.done


class TestUnanswered:
    """A webhook that cannot be asked holds back what it is asked about; a server that fails the object it fails at."""

    deletions: tuple[Action, ...] = (delete(1), delete(2), create(0))
    unanswered = Held(unanswered=frozenset({("DeletePod", "v1 Pod")}))

    def test_it_is_asked_about_nothing_alike_in_that_pass(self, threads: ThreadPoolExecutor) -> None:
        """Each of its actions would wait for a timeout of its own; what it is not asked about is done."""
        cluster = Cluster({"p-1": UNASKED})
        found = Carrier(cluster.do, threads, 8).carry_out(self.deletions)
        assert found == FailedPass(UNASKED, self.unanswered)
        assert [delete(1), create(0)] == cluster.done

    def test_one_object_at_which_the_server_fails_holds_back_no_other(self, threads: ThreadPoolExecutor) -> None:
        """F23: it comes first in each pass, and the others would leave, or lose their gates, never."""
        cluster = Cluster({"p-1": FAILED})
        found = Carrier(cluster.do, threads, 8).carry_out(self.deletions)
        assert [*self.deletions] == cluster.done
        assert found is not None
        assert found.held.hears_nothing
        assert Carrier(cluster.do, threads, 8).carry_out(self.deletions, found) is None
        assert [*self.deletions, *self.deletions[1:]] == cluster.done

    @pytest.mark.parametrize("fails", range(3))
    def test_a_replica_whose_release_fails_holds_back_no_other(self, threads: ThreadPoolExecutor, fails: int) -> None:
        """Whether it goes out alone or with others; those that had not begun beside it go out in the next pass."""
        releases = [ReleasePods("team", ((f"p-{number}", "u"),)) for number in range(3)]
        done: list[Action] = []

        def do(action: Action) -> None:
            if action == releases[fails]:
                raise FAILED
            done.append(action)

        found = Carrier(do, threads, 8).carry_out(releases)
        assert found is not None
        left = [each for each in releases if each not in done]
        assert Carrier(do, threads, 8).carry_out(left, found) is None
        assert [each for each in releases if each not in done] == [releases[fails]]

    def test_a_server_that_fails_at_two_is_asked_about_no_third(self, threads: ThreadPoolExecutor) -> None:
        """F13: an etcd without a quorum takes seconds for each."""
        cluster = Cluster({f"p-{number}": FAILED for number in range(9)})
        Carrier(cluster.do, threads, 8).carry_out([*map(delete, range(9)), create(9)])
        assert [delete(0), delete(1), create(9)] == cluster.done

    def test_nor_is_it_asked_while_that_backs_off(self, threads: ThreadPoolExecutor) -> None:
        """Else every event would ask it again."""
        cluster, known = Cluster(), FailedPass(UNASKED, self.unanswered)
        assert Carrier(cluster.do, threads, 8).carry_out(self.deletions, known) is None
        assert [create(0)] == cluster.done

    def test_a_moment_without_one_frees_nothing_that_waits_already(self, threads: ThreadPoolExecutor) -> None:
        cluster = Cluster({"p-1": UNASKED})
        found = Carrier(cluster.do, threads, 8).carry_out(self.deletions, NO_POD)
        assert found == FailedPass(UNASKED, Held(pods=True, unanswered=self.unanswered.unanswered))

    def test_kinds_are_told_apart(self, threads: ThreadPoolExecutor) -> None:
        bodies = [{"apiVersion": group, "kind": "InferencePool", "metadata": {"name": group}} for group in ("a", "b")]
        actions: list[Action] = [*map(ApplyObject, bodies), DeleteObject("a", "InferencePool", "team", "x", "u")]
        cluster = Cluster({"a": UNASKED})
        Carrier(cluster.do, threads, 8).carry_out(actions)
        assert actions == cluster.done

    def test_a_wave_stops_at_it(self, threads: ThreadPoolExecutor) -> None:
        """Hundreds of replicas to release would wait for as many timeouts."""
        releases = [ReleasePods(f"p-{number}", (("p", "u"),)) for number in range(500)]
        sent: list[Action] = []

        def do(action: Action) -> None:
            sent.append(action)
            if action not in releases[:7]:
                raise UNASKED

        Carrier(do, threads, 8).carry_out(releases)
        assert 7 < len(sent) <= 7 + 4


def unroute(number: int) -> UnroutePod:
    return UnroutePod("team", f"p-{number}", f"u-{number}", 1.0)


class Failing(Cluster):
    """It fails to unroute one pod, and does all else."""

    def do(self, action: Action) -> None:
        if action == unroute(1):
            raise FAILED
        super().do(action)


def test_a_pod_that_may_still_be_chosen_is_not_deleted(threads: ThreadPoolExecutor) -> None:
    """Neither in the pass in which taking it out of routing failed, nor while that backs off."""
    cluster = Failing()
    actions: list[Action] = [unroute(1), delete(1), unroute(2), delete(2), delete(3)]
    refused = Carrier(cluster.do, threads, 8).carry_out(actions)
    assert cluster.done == [unroute(2), delete(2), delete(3)]
    cluster.done.clear()
    assert Carrier(cluster.do, threads, 8).carry_out(actions, refused) is None
    assert cluster.done == [unroute(2), delete(2), delete(3)]


def test_pods_of_which_nobody_answers_are_not_deleted_while_they_are_routed(threads: ThreadPoolExecutor) -> None:
    """A webhook for labels of pods is away: who left routing before goes all the same."""
    cluster = Cluster({"p-1": UNASKED})
    assert Carrier(cluster.do, threads, 8).carry_out([unroute(1), delete(1), unroute(2), delete(2), delete(3)])
    assert cluster.done == [unroute(1), delete(3)]


def test_a_pod_that_a_router_keeps_is_not_deleted_before_it_was_asked_again(threads: ThreadPoolExecutor) -> None:
    """Neither in this pass nor while that backs off, and what is not about leaving goes on."""
    asked, cluster = forget(1), Cluster({"p-1": RouterKeepsWorker("it does not answer")})
    refused = Carrier(cluster.do, threads, 8).carry_out([asked, delete(1), delete(2), create(3)])
    assert cluster.done == [asked, delete(2), create(3)]
    assert Carrier(cluster.do, threads, 8).carry_out([asked, delete(1), create(4)], refused) is None
    assert cluster.done[3:] == [create(4)]


def test_a_router_that_keeps_one_engine_is_asked_about_others(threads: ThreadPoolExecutor) -> None:
    """A silent one is not, while that backs off: each question takes seconds."""
    actions: list[Action] = [forget(1), delete(1), forget(2), delete(2)]
    keeps_one = Cluster({"p-1": RouterKeepsOneWorker("it is still in its list")})
    refused = Carrier(keeps_one.do, threads, 8).carry_out(actions)
    assert keeps_one.done == [forget(1), forget(2), delete(2)]
    assert Carrier(keeps_one.do, threads, 8).carry_out(actions, refused) is None
    assert keeps_one.done[3:] == [forget(2), delete(2)]
    silent = Cluster({"p-1": RouterKeepsWorker("it does not answer")})
    assert Carrier(silent.do, threads, 8).carry_out(actions)
    assert silent.done == [forget(1)]


def test_a_pod_whose_machine_goes_waits_for_no_router(threads: ThreadPoolExecutor) -> None:
    """Nor if another pod waits for that router, so that it is not asked meanwhile."""
    cluster = Cluster({"p-1": RouterKeepsWorker("it does not answer")})
    actions: list[Action] = [delete(2), forget(2, hurries=True), forget(1), delete(1)]
    refused = Carrier(cluster.do, threads, 8).carry_out(actions)
    assert cluster.done == [delete(2), forget(2, hurries=True), forget(1)]
    cluster.done.clear()
    assert Carrier(cluster.do, threads, 8).carry_out(actions, refused) is None
    assert cluster.done == [delete(2)]


def test_a_pod_that_may_never_be_unrouted_is_deleted_all_the_same(threads: ThreadPoolExecutor) -> None:
    """A policy that forbids its edit for ever must not keep it for ever: preStop covers requests that come late."""
    cluster = Cluster({"p-1": POLICY})
    found = Carrier(cluster.do, threads, 8).carry_out([unroute(1), delete(1)])
    assert found == FailedPass(POLICY, Held(chosen=frozenset({"p-1"})))
    assert found.is_tried_each_pass
    assert cluster.done == [unroute(1), delete(1)]


class TestContended:
    """Others write to one pod, again and again, faster than the API server retries (F12)."""

    def test_all_but_that_pod_goes_on_in_the_same_pass(self, threads: ThreadPoolExecutor) -> None:
        """It is not deleted while fronts choose it; the next pass tries again at once."""
        cluster = Cluster({"p-1": CONTENDED})
        actions: list[Action] = [unroute(1), delete(1), unroute(2), delete(2), create(3)]
        assert Carrier(cluster.do, threads, 8).carry_out(actions) == FailedPass(CONTENDED)
        assert cluster.done == [unroute(1), unroute(2), delete(2), create(3)]

    @pytest.mark.parametrize("later", [QUOTA, AWAY], ids=["a quota", "the API server is away"])
    def test_what_is_refused_after_it_backs_off_all_the_same(
        self, threads: ThreadPoolExecutor, later: WeftError
    ) -> None:
        cluster = Cluster({"p-1": CONTENDED, "p-2": later})
        found = Carrier(cluster.do, threads, 8).carry_out([unroute(1), create(2), create(3)])
        assert found is not None
        assert (found.error, cluster.done) == (later, [unroute(1), create(2)])
