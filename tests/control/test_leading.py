"""Of several operators one leads: never two at a time, and the next one soon after the last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from kubernetes.client import ApiClient, Configuration

from weft.apply import Sender, TokenBucket, Writer
from weft.apply.sending import ApiRequest, ApiResponse
from weft.control import Operator, RunOptions, leading, operator
from weft.control.leading import LEASE, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, AlwaysLeads, Contender
from weft.domain.action import ForgetWorker
from weft.domain.errors import Retry
from weft.domain.reasons import Reason

Json = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases"


@dataclass
class Leases:
    """An API server with Leases, which stand in for a sender; `now` is the time of everybody.

    Who asks while it is `away` waits for half a second.
    """

    now: float = 1000.0
    stored: Json | None = None
    away: bool = False
    refusal: ApiResponse | None = None
    version: int = 0
    asked: list[str] = field(default_factory=list)

    def get(self, path: str) -> ApiResponse:
        """The Lease, or nothing."""
        return self.send(ApiRequest("GET", path))

    def send(self, request: ApiRequest) -> ApiResponse:
        """Refuses a create of what is there, and a version that is not the last one."""
        self.asked.append(request.method)
        if self.away:
            self.now += 0.5
            raise Retry(Reason.ApiUnavailable, "nobody answers")
        if self.refusal is not None:
            return self.refusal
        if request.method == "POST":
            assert request.path == LEASES
            return ApiResponse(409) if self.stored else self._keep(request.body)
        assert request.path == f"{LEASES}/{LEASE}"
        if self.stored is None:
            return ApiResponse(404)
        if request.method == "GET":
            return ApiResponse(200, self.stored)
        if request.body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            return ApiResponse(409)
        return self._keep(request.body)

    def candidate(self, name: str) -> Contender:
        """One that tells the time by `now`."""
        return Contender(cast("Sender", self), "weft-system", lambda: self.now, lambda: self.now, name)

    @property
    def holder(self) -> str:
        """Whoever the Lease names."""
        assert self.stored is not None
        return str(self.stored["spec"]["holderIdentity"])

    def _keep(self, body: Json) -> ApiResponse:
        self.version += 1
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return ApiResponse(200, self.stored)


@pytest.fixture
def leases() -> Leases:
    return Leases()


def test_the_first_one_leads_and_the_second_stands_by(leases: Leases) -> None:
    first, second = leases.candidate("first"), leases.candidate("second")
    assert first.try_to_hold()
    assert not second.try_to_hold()
    assert (first.may_write(), second.may_write()) == (True, False)
    assert leases.holder == "first"


def test_a_leader_that_renews_leads_on(leases: Leases) -> None:
    first, second = leases.candidate("first"), leases.candidate("second")
    for _ in range(100):
        assert first.try_to_hold()
        assert not second.try_to_hold()
        leases.now += RETRY_SECONDS
        assert first.may_write()
    assert leases.stored is not None
    assert leases.stored["spec"]["leaseTransitions"] == 0


def test_a_paused_leader_may_not_write_before_another_one_may_lead(leases: Leases) -> None:
    """F17: whenever it wakes up, its time is over before anybody else's begins, and stays over."""
    first, second = leases.candidate("first"), leases.candidate("second")
    assert first.try_to_hold()
    both = []
    for _ in range(40):
        second.try_to_hold()
        both.append((first.may_write(), second.may_write()))
        leases.now += 1.0
    assert (True, True) not in both
    assert both.index((False, True)) == LEASE_SECONDS
    assert not first.try_to_hold()
    assert not first.may_write()
    assert leases.holder == "second"


@pytest.mark.parametrize("minutes", [-600.0, 600.0])
def test_the_times_in_the_lease_are_of_no_account(leases: Leases, minutes: float) -> None:
    """The clock of another machine may be anything (F16)."""
    first, second = leases.candidate("first"), leases.candidate("second")
    assert first.try_to_hold()
    assert leases.stored is not None
    leases.stored["spec"]["renewTime"] = f"20{26 + int(minutes / 60)}-01-01T00:00:00.000000+00:00"
    assert not second.try_to_hold()
    leases.now += LEASE_SECONDS - 0.1
    assert not second.try_to_hold()
    leases.now += 0.1
    assert second.try_to_hold()


def test_of_two_that_see_it_expire_one_leads(leases: Leases) -> None:
    """Both read it free, and the API server takes the write of one of them."""
    assert leases.candidate("gone").try_to_hold()
    one, other = leases.candidate("one"), leases.candidate("other")
    for candidate in (one, other):
        assert not candidate.try_to_hold()
    leases.now += LEASE_SECONDS
    seen = dict(leases.stored or {})
    assert one.try_to_hold()
    late = Contender(
        cast("Sender", _Stale(leases, seen)), "weft-system", lambda: leases.now, lambda: leases.now, "other"
    )
    late._seen = other._seen
    assert not late.try_to_hold()
    assert leases.holder == "one"


@dataclass
class _Stale:
    """Reads what was there before, writes to what is there."""

    leases: Leases
    seen: Json

    def get(self, _: str) -> ApiResponse:
        return ApiResponse(200, self.seen)

    def send(self, request: ApiRequest) -> ApiResponse:
        return self.leases.send(request)


def test_one_that_resigns_is_followed_at_once(leases: Leases) -> None:
    first, second = leases.candidate("first"), leases.candidate("second")
    assert first.try_to_hold()
    assert not second.try_to_hold()
    asyncio.run(first.resign())
    assert not first.may_write()
    assert second.try_to_hold()
    assert leases.stored is not None
    assert leases.stored["spec"]["leaseTransitions"] == 1


def test_a_renewal_under_way_gives_no_time_to_one_that_resigned(leases: Leases) -> None:
    """Its answer may come after the Lease was given back, while threads still have writes to send."""
    first = leases.candidate("first")
    assert first.try_to_hold()
    asyncio.run(first.resign())
    assert first.try_to_hold()
    assert not first.may_write()


def test_a_lease_that_somebody_edits_is_renewed(leases: Leases) -> None:
    first = leases.candidate("first")
    assert first.try_to_hold()
    assert leases.stored is not None
    leases.stored["spec"] = {"holderIdentity": "first"}
    assert first.try_to_hold()
    assert leases.stored["spec"]["acquireTime"]


def test_one_that_was_followed_takes_nothing_away_as_it_ends(leases: Leases) -> None:
    first, second = leases.candidate("first"), leases.candidate("second")
    assert first.try_to_hold()
    assert not second.try_to_hold()
    leases.now += LEASE_SECONDS
    assert second.try_to_hold()
    asyncio.run(first.resign())
    assert leases.holder == "second"


def test_a_leader_without_an_answer_ends_in_time(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "RETRY_SECONDS", 0.001)
    first = leases.candidate("first")

    async def lead() -> float:
        assert await first.lead(asyncio.Event())
        leases.away, begun = True, leases.now
        await first.keep(asyncio.Event())
        return leases.now - begun

    assert asyncio.run(lead()) == pytest.approx(RENEW_SECONDS, abs=0.5)
    assert not first.may_write()


def test_who_is_stopped_while_standing_by_never_leads(leases: Leases) -> None:
    assert leases.candidate("first").try_to_hold()
    second, stop = leases.candidate("second"), asyncio.Event()

    async def stand_by() -> bool:
        asyncio.get_running_loop().call_later(0.05, stop.set)
        return await second.lead(stop)

    assert not asyncio.run(stand_by())


def test_what_is_in_the_way_is_told_once(leases: Leases, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    leases.refusal = ApiResponse(403, {"message": 'leases "weft" is forbidden'})
    candidate = leases.candidate("first")
    assert [candidate.try_to_hold() for _ in range(3)] == [False] * 3
    assert [each.message for each in caplog.records] == [
        'Lease weft-system/weft cannot be read or written: leases "weft" is forbidden'
    ]
    assert candidate.trouble() == caplog.records[0].message
    leases.refusal = None
    assert candidate.try_to_hold()
    assert candidate.trouble() is None


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}, {"leaseTransitions": None}])
def test_a_lease_without_a_holder_is_taken(leases: Leases, spec: Json | None) -> None:
    leases.stored = {"metadata": {"name": LEASE, "resourceVersion": "7"}, "spec": spec}
    assert leases.candidate("first").try_to_hold()
    assert leases.holder == "first"


def test_a_lease_that_somebody_deletes_is_made_again(leases: Leases) -> None:
    first = leases.candidate("first")
    assert first.try_to_hold()
    leases.stored = None
    assert first.try_to_hold()
    assert leases.holder == "first"


def test_a_write_of_one_that_leads_no_more_is_not_sent() -> None:
    """Whatever asks for it: the client is not even called."""
    sender = Sender(cast("ApiClient", None), TokenBucket(), lambda: False)
    with pytest.raises(Retry, match="does not lead any more"):
        sender.send(ApiRequest("DELETE", "/api/v1/namespaces/team/pods/p"))


class _Reached(Exception):  # noqa: N818 - no error
    """An operator came to its work, with this sender."""


async def test_all_that_an_operator_writes_asks_whether_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the leader's own process: a paused one may wake up anywhere between two writes."""
    led = _Led()

    def come_to_work(_: Operator, own: object, sender: Sender, *__: object) -> None:
        raise _Reached(sender)

    monkeypatch.setattr(operator, "Contender", lambda *_: led)
    monkeypatch.setattr(Operator, "_context", come_to_work)
    options = RunOptions(host="127.0.0.1", port=0, leader_elect=True)
    with pytest.raises(_Reached) as reached:
        await Operator(options).serve(asyncio.Event(), ApiClient(Configuration(host="http://127.0.0.1:1")))
    sender: Sender = reached.value.args[0]
    with pytest.raises(Retry, match="cannot be reached"):
        sender.send(ApiRequest("DELETE", "/api/v1/namespaces/team/pods/p"))
    led.leads = False
    with pytest.raises(Retry, match="does not lead any more"):
        sender.send(ApiRequest("DELETE", "/api/v1/namespaces/team/pods/p"))


class _Led(AlwaysLeads):
    leads = True

    def may_write(self) -> bool:
        return self.leads


def test_routers_are_asked_by_the_leader_alone() -> None:
    """The DELETE at a router is no request to the API server, and a write all the same."""
    writer = Writer(Sender(cast("ApiClient", None), TokenBucket(), lambda: False), (), lambda *_: None)
    with pytest.raises(Retry, match="does not lead any more"):
        writer.carry_out(ForgetWorker("team", "chat-3-0", "u3", "10.0.0.1:8000", (("u", "127.0.0.1:1"),)))


async def test_an_operator_alone_leads_until_it_is_stopped() -> None:
    stop, alone = asyncio.Event(), AlwaysLeads()
    assert await alone.lead(stop)
    asyncio.get_running_loop().call_soon(stop.set)
    await alone.keep(stop)
    assert alone.may_write()
