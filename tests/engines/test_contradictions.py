"""Variables and arguments that would have the engine do something else than the plan says, whatever the engine."""

from __future__ import annotations

import pytest

from tests.render.pools import LLAMA, RELEASES, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ModelSource, ModelSpec, PoolSpec, SourceKind
from weft.domain.workload import Role, Workload
from weft.engines import LaunchRequest, adapter_for

CACHED = Workload(1, 1000, 200, 3000, 600, prefix_hit=0.4)
NO_PREFIXES = EngineSpec(args=("--disable-radix-cache",))
STREAMED = ModelSpec(LLAMA, source=ModelSource(SourceKind.URI, "s3://bucket/m", secret="store"))


def command(wanted: PoolSpec, engine: EngineName) -> str:
    chosen = plan(shape(engine=engine), RELEASES[engine])
    return " ".join(adapter_for(engine).launch(LaunchRequest(wanted, chosen)).command)


@pytest.mark.parametrize("engine", list(EngineName))
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_which_devices_of_its_pod_an_engine_sees_is_the_plans(engine: EngineName, name: str) -> None:
    """AMD's variables as well as NVIDIA's: with fewer devices than planned it ends, or serves in another shape."""
    with pytest.raises(Invalid, match=f"spec.engine.env may not set {name}: Weft sets it") as refused:
        command(spec(engine=EngineSpec(env=((name, "0"),))), engine)
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize("name", ["VLLM_DP_SIZE", "VLLM_DP_RANK", "VLLM_DP_MASTER_IP"])
def test_ranks_come_out_of_the_shape_and_no_variable(name: str) -> None:
    """Without --data-parallel-size vLLM takes the number of ranks from its environment."""
    with pytest.raises(Invalid, match=f"spec.engine.env may not set {name}"):
        command(spec(engine=EngineSpec(env=((name, "2"),))), EngineName.VLLM)


@pytest.mark.parametrize("role", [Role.Aggregated, Role.Prefill])
def test_the_radix_cache_may_not_be_off_where_the_plan_counts_on_it(role: Role) -> None:
    with pytest.raises(Invalid, match=r"--disable-radix-cache while spec\.workload\.prefixHitPercent is 40") as refused:
        command(spec(role, workload=CACHED, engine=NO_PREFIXES), EngineName.SGLang)
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize(
    "wanted",
    [spec(engine=NO_PREFIXES), spec(Role.Decode, workload=CACHED, engine=NO_PREFIXES), spec(workload=CACHED)],
    ids=["no hits planned", "decode", "on"],
)
def test_the_radix_cache_may_be_off_where_nothing_counts_on_it(wanted: PoolSpec) -> None:
    assert command(wanted, EngineName.SGLang)


@pytest.mark.parametrize("engine", [EngineName.VLLM, EngineName.SGLang])
def test_weights_in_an_object_store_are_read_by_what_can_stream_them(engine: EngineName) -> None:
    """The user's argument comes last and wins: the engine would look for files of that name."""
    given = EngineSpec(args=("--load-format", "safetensors"))
    with pytest.raises(Invalid, match=r"--load-format safetensors reads no weights from s3://bucket/m: remove it"):
        command(spec(model=STREAMED, engine=given), engine)
    sharded = EngineSpec(args=("--load-format", "runai_streamer_sharded"))
    assert command(spec(model=STREAMED, engine=sharded), engine).endswith("runai_streamer_sharded")
    assert command(spec(engine=given), engine)
