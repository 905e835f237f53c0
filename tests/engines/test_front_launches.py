"""Routers as they are started, whatever their engine."""

from __future__ import annotations

import pytest

from weft.domain.shape import EngineName
from weft.domain.spec import RouterSpec
from weft.engines import MARGIN_SECONDS, ContainerLaunch, FrontRequest, adapter_for

HALVES = ((("a", "1"),), (("b", "2"),))
DRAIN_SECONDS = 60


def front(engine: EngineName, *, pairs: bool) -> ContainerLaunch:
    prefill, decode = HALVES
    return adapter_for(engine).front(
        FrontRequest("team", RouterSpec(), prefill, decode if pairs else (), DRAIN_SECONDS)
    )


@pytest.mark.parametrize("pairs", [False, True], ids=["pool", "pair"])
@pytest.mark.parametrize("engine", EngineName)
def test_a_stream_as_long_as_the_drain_ends_before_its_router_is_killed(engine: EngineName, *, pairs: bool) -> None:
    """The last request comes as the pre-stop hook ends, and the router takes a moment to end after it."""
    made = front(engine, pairs=pairs)
    assert made.grace_seconds == made.pre_stop_seconds + DRAIN_SECONDS + MARGIN_SECONDS


@pytest.mark.parametrize("pairs", [False, True], ids=["pool", "pair"])
@pytest.mark.parametrize("engine", [EngineName.VLLM, EngineName.SGLang])
def test_a_router_sends_what_a_replica_knows_to_another_before_that_has_many_more(
    engine: EngineName, *, pairs: bool
) -> None:
    """Its own default is 64: a new replica would stay idle beside others with up to that many requests each."""
    said = " ".join(front(engine, pairs=pairs).command)
    assert "--balance-abs-threshold 16 --service-discovery " in said
    assert "--balance-rel-threshold" not in said
