"""Links between the halves of a split: they bound what either serves, and who waits before them waits for tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.perf.replicas import Parallel, replica, workload
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Limit
from weft.domain.workload import Role, Slo, Workload
from weft.perf import (
    SEVERAL_THROUGH_THE_HOST,
    ReplicaModel,
    assess,
    at_engine,
    at_engine_after_handover,
    at_rate,
    predict,
    sent_bytes_per_second,
    worthwhile,
)
from weft.perf.handover import link
from weft.perf.lengths import lengths
from weft.perf.predict import Question

if TYPE_CHECKING:
    from collections.abc import Callable

SLO = Slo(ttft=((95, 4.0),), tpot=((95, 0.05),))
PROMPTS = workload(4000, 200)
KV_BYTES = 2 * 80 * 8 * 128 * 2 * PROMPTS.input_tokens  # of a prompt, on all GPUs
HALVES = (Role.Prefill, Role.Decode)


def llama(tensor: int = 4, wire: str = "TCP") -> ReplicaModel:
    return replace(replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, tensor), wire=wire)


def capacity(role: Role, tensor: int = 4, wire: str = "TCP", asked: Workload = PROMPTS, slo: Slo = SLO) -> float:
    return predict(llama(tensor, wire), asked, slo, role).capacity


@pytest.mark.parametrize("role", HALVES)
def test_no_half_is_given_more_prompts_than_its_links_carry(role: Role) -> None:
    carried = 4 * sent_bytes_per_second(llama()) * SEVERAL_THROUGH_THE_HOST / KV_BYTES
    without_target = capacity(role, slo=Slo(tpot=SLO.tpot))
    assert without_target == pytest.approx(0.8 * carried, rel=0.01)
    assert 0.0 < capacity(role) < 0.95 * carried


@pytest.mark.parametrize("role", HALVES)
def test_more_gpus_have_more_links(role: Role) -> None:
    assert all(1.5 * few < many for few, many in pairwise(capacity(role, tensor) for tensor in (2, 4, 8)))


@pytest.mark.parametrize("role", HALVES)
def test_a_wider_wire_carries_more_until_the_engine_is_the_bound(role: Role) -> None:
    narrow, wide, widest = (capacity(role, wire=wire) for wire in ("TCP", "RDMA", "NVLink"))
    assert narrow < wide / 2
    assert wide <= widest < 1.2 * wide


def test_a_replica_that_does_both_hands_nothing_over() -> None:
    assert capacity(Role.Aggregated) == capacity(Role.Aggregated, wire="RDMA")


@pytest.mark.parametrize("role", HALVES)
def test_what_limits_such_a_half_is_told(role: Role) -> None:
    assert predict(llama(), PROMPTS, SLO, role).limit is Limit.ScaleOutNetwork
    assert predict(llama(wire="RDMA"), PROMPTS, SLO, role).limit is not Limit.ScaleOutNetwork


@pytest.mark.parametrize("role", HALVES)
def test_what_the_cache_has_is_not_sent(role: Role) -> None:
    assert capacity(role, asked=workload(4000, 200, 0.5)) > 1.5 * capacity(role)


@pytest.mark.parametrize("role", HALVES)
def test_all_is_sent_to_an_engine_whose_decode_keeps_no_prompts(role: Role) -> None:
    half = replace(llama(), shape=replace(llama().shape, engine=EngineName.SGLang))
    once, again = (predict(half, workload(4000, 200, hit), SLO, role) for hit in (0.0, 0.5))
    assert once.limit is again.limit is Limit.ScaleOutNetwork
    assert again.capacity <= 1.05 * once.capacity


@pytest.mark.parametrize("wire", ["TCP", "RDMA"])
def test_kv_takes_as_long_as_where_all_who_are_on_the_link_share_it(wire: str) -> None:
    """Step by step: one alone has the whole pace, several together that of several."""
    found = link(llama(wire=wire), lengths(4000, 4000), 0.0)
    assert found.shared == pytest.approx(found.alone.mean / (SEVERAL_THROUGH_THE_HOST if wire == "TCP" else 1.0))
    for busy in (0.3, 0.8):
        rate = busy / found.shared
        taken = found.taken(rate).mean - found.taken(rate).least
        assert taken == pytest.approx(shared_seconds(rate, found.alone.mean, found.shared), rel=0.05)


def shared_seconds(rate: float, alone: float, shared: float) -> float:
    """Mean time of prompts that come at random and take so long alone, or so long of a pace that several share."""
    draw, now, comes, left, sent = Random(7), 0.0, 0.0, list[tuple[float, float]](), list[float]()
    while len(sent) < 30_000:
        each = alone if len(left) <= 1 else shared * len(left)  # seconds that a whole prompt would take now
        ends = now + min((part for part, _ in left), default=math.inf) * each
        until = min(ends, comes)
        left = [(part - (until - now) / each, since) for part, since in left]
        sent += [until - since for part, since in left if part <= 1e-9]
        left, now = [(part, since) for part, since in left if part > 1e-9], until
        if until == comes:
            left.append((1.0, now))
            comes = now + draw.expovariate(rate)
    return sum(sent) / len(sent)


def test_every_rank_has_links_of_its_own() -> None:
    """Ranks carry as much together; a prompt of one rank goes over that rank's links alone, and takes longer."""
    sizes = (Parallel(tensor=4), Parallel(data=4))
    halves = [replace(replica("llama-3.1-8b", "H200", Precision.BF16, each), wire="TCP") for each in sizes]
    tensor, data = (predict(half, PROMPTS, Slo(tpot=SLO.tpot), Role.Decode).capacity for half in halves)
    assert data == pytest.approx(tensor, rel=0.01)
    tensor, data = (predict(half, PROMPTS, SLO, Role.Decode).capacity for half in halves)
    assert 0.0 < data < 0.8 * tensor


def test_kv_that_comes_too_late_without_load_is_a_miss_with_its_sentence() -> None:
    """1.3 GB over one GPU's link take a second, those of long prompts more: half of the target is for that."""
    found = assess(llama(1), Question(PROMPTS, Slo(ttft=((95, 1.5),), tpot=SLO.tpot), Role.Decode))
    assert found.prediction.capacity == 0.0
    assert found.prediction.limit is Limit.ScaleOutNetwork
    assert str(found.misses[0]).startswith("KV has come after ")
    assert str(found.misses[0]).endswith(", more than 50% of TTFT p95 1.5 s")
    within = Slo(ttft=((95, 1.01 * found.misses[0].reachable_seconds),), tpot=SLO.tpot)
    assert not assess(llama(1), Question(PROMPTS, within, Role.Decode)).misses


def test_what_limits_prefill_is_told_where_its_kv_alone_comes_too_late() -> None:
    found = assess(llama(), Question(PROMPTS, Slo(ttft=((95, 0.8),)), Role.Prefill))
    assert [str(miss).startswith("KV has come after ") for miss in found.misses] == [True]
    assert found.prediction.limit is Limit.ScaleOutNetwork


def test_fewer_prompts_help_who_waits_behind_the_links_of_an_idle_engine() -> None:
    """Of such prompts as much is worth while as is within the targets, in either half."""
    for tokens in (4000, 8000):
        asked = [Question(workload(tokens, 200), SLO, role) for role in HALVES]
        assert [worthwhile(llama(), each, 0.5, 0.3) for each in asked] == [
            pytest.approx(assess(llama(), each).prediction.capacity) for each in asked
        ]


def test_first_tokens_wait_longer_before_a_busy_link_and_without_bound_before_a_full_one() -> None:
    def waits(role: Role, rate: float) -> float | None:
        found = at_rate(llama(), replace(PROMPTS, requests_per_second=rate), role)
        return None if found is None else found[0].p95

    for role in HALVES:
        idle, busy = (waits(role, rate) for rate in (0.1, 2.4))
        assert idle is not None
        assert busy is not None
        assert busy > 1.5 * idle
        assert waits(role, 4.0) is None


def test_the_engine_that_computes_prompts_has_answered_before_it_sends() -> None:
    busy = replace(PROMPTS, requests_per_second=2.4)
    narrow, wide = (at_engine(llama(wire=wire), busy, Role.Prefill) for wire in ("TCP", "RDMA"))
    assert narrow == wide


@pytest.mark.parametrize("role", HALVES)
@pytest.mark.parametrize("counted", [at_engine, at_engine_after_handover])
def test_what_engines_count_has_come_over_a_link_that_is_taken_for_full(
    role: Role, counted: Callable[..., Any]
) -> None:
    more = replace(PROMPTS, requests_per_second=4.0)
    assert at_rate(llama(), more, role) is None
    assert counted(llama(), more, role) is not None
