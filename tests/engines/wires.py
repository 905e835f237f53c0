"""What is true of every wire that a half of a split can name for its KV."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import plan, shape, split
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import KVSpec, PoolSpec
from weft.domain.workload import Role
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for
from weft.engines.kv.handover import settings_conflict
from weft.render.revision import pair_revision, revision


def launched(wanted: PoolSpec, engine: EngineName = EngineName.VLLM) -> ContainerLaunch:
    return adapter_for(engine).launch(LaunchRequest(wanted, plan(shape(4, "GB200", engine=engine))))


def refusal(wanted: PoolSpec, engine: EngineName = EngineName.VLLM) -> str:
    """Why a half over its wire is launched by nobody, from the wire's name on."""
    with pytest.raises(Invalid) as refused:
        launched(wanted, engine)
    assert refused.value.reason is Reason.SpecInvalid
    named, _, why = refused.value.message.partition(": ")
    assert named == f"spec.kvTransfer.transport {wanted.kv.transport}"
    return why


def assert_it_meets_no_half_over_another_wire(prefill: PoolSpec) -> None:
    """Neither engine's handshake compares wires: the pair's revision keeps the generations apart."""
    conflict = settings_conflict(prefill, replace(prefill, role=Role.Decode, kv=KVSpec()))
    assert conflict is not None
    told = f"spec.kvTransfer.transport is {prefill.kv.transport} in prefill and unset in decode"
    assert conflict.message.startswith(told)
    before = split().spec
    assert before is not None
    kv = KVSpec(transport=prefill.kv.transport)
    after = replace(before, prefill=replace(before.prefill, kv=kv), decode=replace(before.decode, kv=kv))
    release = plan().engine
    assert pair_revision(before, release) != pair_revision(after, release)
    assert revision(before.prefill, plan()) != revision(after.prefill, plan())
