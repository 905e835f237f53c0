"""Waits in closed form: what is left of one where servers share a queue."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.perf.queueing import NO_WAIT, Moments, Wait, either, in_line, pooled

SERVICE = Moments(1.0, 2.0, 6.0)  # of an exponential time


def erlang(busy: float, servers: int) -> float:
    """The mean wait before so many servers of exponential times with a mean of 1, by Erlang's formula."""
    load = busy * servers
    all_taken = load**servers / math.factorial(servers) / (1.0 - busy)
    waits = all_taken / (all_taken + sum(load**taken / math.factorial(taken) for taken in range(servers)))
    return waits / (servers * (1.0 - busy))


@pytest.mark.parametrize("servers", [1, 2, 4, 8])
@pytest.mark.parametrize("busy", [0.3, 0.5, 0.7, 0.9])
def test_servers_that_share_a_queue_let_wait_as_erlang_found(busy: float, servers: int) -> None:
    found = pooled(in_line(busy, SERVICE, 0.0), busy, servers).mean
    assert found == pytest.approx(erlang(busy, servers), rel=1e-9)


def test_the_variance_is_that_of_those_who_wait_and_those_who_do_not() -> None:
    """Half of the time busy, the wait is 0 or exponential with 1 / (n (1 - busy)): that has a known variance."""
    waits = erlang(0.5, 4) * 4 * 0.5
    mean = 1.0 / (4 * 0.5)
    found = pooled(in_line(0.5, SERVICE, 0.0), 0.5, 4)
    assert found.variance == pytest.approx(waits * 2.0 * mean**2 - (waits * mean) ** 2, rel=1e-9)


@given(busy=st.floats(0.0, 0.999), servers=st.integers(1, 5000))
def test_nobody_waits_longer_for_a_shared_queue(busy: float, servers: int) -> None:
    """Of very many hardly anybody waits at all, and nothing underflows."""
    alone = Wait(3.0, 10.0)
    found = pooled(alone, busy, servers)
    assert 0.0 <= found.mean <= alone.mean * (1.0 + 1e-9)
    assert 0.0 <= found.variance
    assert found == NO_WAIT or found.mean > 1e-100


def test_a_wait_that_is_one_of_two_has_the_moments_of_both() -> None:
    """Waits of 1 and of 3 seconds, which are always the same: a quarter of the requests has the longer one."""
    assert either(Wait(1.0, 0.0), Wait(3.0, 0.0), 0.25) == Wait(1.5, 0.75)


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_a_wait_that_is_always_the_same_one_stays_as_it_is(part: float) -> None:
    short, long = Wait(0.25, 0.5), Wait(3.0, 7.5)
    assert either(short, long, part) == (long if part else short)
