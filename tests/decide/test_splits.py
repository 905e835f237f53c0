"""Both halves of a split: one engine release, counts together, GPUs in step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import amd_board, board, busy, with_rdma
from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import EngineName
from weft.domain.snapshot import ResourceKey, SplitRecord
from weft.domain.spec import EngineSpec, KVSpec, PlacementSpec, PoolSpec, RouterKind, RouterSpec, SplitSpec
from weft.domain.status import SplitStatus
from weft.domain.workload import Role

OLDER = load().release(EngineName.VLLM, "0.20.0", "nvidia")


def half(role: Role, tp: int = 4, scaling: ScalingSpec | None = None) -> PoolSpec:
    return pool_spec(tp, scaling or external(1), role=role)


def over_rdma(spec: PoolSpec) -> PoolSpec:
    """The same with devices for its KV: what comes of it is then up to the engines."""
    return replace(spec, engine=replace(spec.engine, resources=(("rdma/ib", "1"),)))


def split(prefill: PoolSpec, decode: PoolSpec, router: RouterKind = RouterKind.Managed) -> SplitRecord:
    spec = SplitSpec(prefill, decode, RouterSpec(router), prefill_body="{}", decode_body="{}", engine=prefill.engine)
    return SplitRecord(ResourceKey("PDSplit", "team", "pd", "uid-pd"), 1, spec, SplitStatus())


def split_world(prefill: PoolSpec, decode: PoolSpec, boards: int = 4, *, children: bool = True) -> World:
    world = World.of([with_rdma(board(f"b-{i}")) for i in range(boards)])
    world.splits["pd"] = split(prefill, decode)
    if children:
        world.pools["pd-prefill"] = pool("pd-prefill", prefill, split_uid="uid-pd")
        world.pools["pd-decode"] = pool("pd-decode", decode, split_uid="uid-pd")
    return world


def split_conditions(world: World) -> dict[str, tuple[str, str]]:
    assert world.last is not None
    return {each.kind: (each.status, each.explanation.reason.value) for each in world.last.splits[0].conditions}


def test_the_release_is_resolved_before_the_children_exist() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode), children=False)
    world.decide()
    engine = world.splits["pd"].status.engine
    assert engine is not None
    assert engine.name is EngineName.VLLM
    assert split_conditions(world)["Planned"] == ("True", "ShapeChosen")


def test_both_halves_run_the_release_of_the_split() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.splits["pd"] = replace(world.splits["pd"], status=SplitStatus(OLDER))
    world.turn()
    assert world.status("pd-prefill").engine == world.status("pd-decode").engine == OLDER


def test_both_halves_are_placed_and_summed_up() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode, scaling=external(2)))
    world.turn(5)
    assert (world.serving("pd-prefill"), world.serving("pd-decode")) == (1, 2)
    assert world.last is not None
    summary = world.last.splits[0]
    assert (summary.prefill_desired, summary.decode_desired) == (1, 2)
    assert summary.prefill_shape is not None
    assert split_conditions(world)["Placed"] == ("True", "AllPlaced")


def test_a_half_without_a_place_is_not_told_to_take_it_from_the_other_half() -> None:
    """Nor from itself: a pair serves with both, so that nodes are missing. Pods hold the GPUs by now."""
    world = split_world(half(Role.Prefill), half(Role.Decode, scaling=external(2)), boards=1)
    world.turn(5)
    _, _, message = world.condition("pd-decode", "Placed")
    assert "its own replicas (of pool team/pd-decode, pool team/pd-prefill) hold too much of every node" in message
    assert "to make room" not in message


@pytest.mark.parametrize(("locality", "together"), [("Preferred", True), ("Any", False)])
def test_halves_prefer_the_zone_of_each_other(locality: str, together: bool) -> None:  # noqa: FBT001
    """The first half takes the tightest board; the other, near it, an empty one rather than a tight one elsewhere."""
    kv = KVSpec(locality=locality)
    world = split_world(replace(half(Role.Prefill, 2), kv=kv), replace(half(Role.Decode, 4), kv=kv), boards=0)
    zones = {"e-0": "east", "e-1": "east", "w-0": "west"}
    world.nodes = [board(name, labels={"topology.kubernetes.io/zone": zone}) for name, zone in zones.items()]
    world.pods = {"a": busy("a", "e-0", 6), "b": busy("b", "w-0", 4)}
    world.turn(3)
    (prefill,), (decode,) = world.nodes_of("pd-prefill"), world.nodes_of("pd-decode")
    assert (zones[prefill[0]] == zones[decode[0]]) is together


def test_when_gpus_run_out_the_halves_stay_in_step() -> None:
    """Three slots for 2 + 4 wanted: never all to one half, and none to a half whose other half has nothing."""
    world = split_world(half(Role.Prefill, 8, external(2)), half(Role.Decode, 8, external(4)), boards=3)
    world.turn(4)
    assert (len(world.nodes_of("pd-prefill")), len(world.nodes_of("pd-decode"))) == (1, 2)


def test_a_half_without_any_slot_holds_the_other_back() -> None:
    """GPUs of half a pair serve nobody."""
    world = split_world(half(Role.Prefill, 8), half(Role.Decode, 4), boards=1)
    world.pods["job"] = busy("job", "b-0", 4)
    world.turn(3)
    assert (world.nodes_of("pd-prefill"), world.nodes_of("pd-decode")) == ([], [])
    assert "waits because the Prefill half has no place" in world.condition("pd-decode", "Placed")[2]
    assert split_conditions(world)["Placed"] == ("False", "NoSlot")
    del world.pods["job"]
    world.nodes.append(board("b-1"))
    world.turn(1)
    assert (len(world.nodes_of("pd-prefill")), len(world.nodes_of("pd-decode"))) == (1, 1)


def test_one_half_without_a_plan_holds_both() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    broken = replace(half(Role.Decode), model=replace(half(Role.Decode).model, model_id="nobody/knows"))
    world.pools["pd-decode"] = pool("pd-decode", broken, split_uid="uid-pd")
    world.splits["pd"] = replace(split(half(Role.Prefill), broken))
    world.turn(2)
    assert world.nodes_of("pd-prefill") == []
    assert split_conditions(world)["Planned"] == ("False", "ModelUnknown")


def test_a_wrong_pin_is_named_where_the_split_has_it() -> None:
    """A reader edits the split, never its children."""
    world = split_world(half(Role.Prefill, 3), half(Role.Decode))
    record = world.splits["pd"]
    assert record.spec is not None
    overrides = ((Role.Prefill, "shape.tensorParallel"),)
    world.splits["pd"] = replace(record, spec=replace(record.spec, overrides=overrides))
    world.turn()
    assert world.last is not None
    message = world.last.splits[0].conditions[0].explanation.message
    assert message.startswith("Prefill pool: spec.prefill.shape.tensorParallel 3: ")


def split_message(world: World, kind: str = "Planned") -> str:
    assert world.last is not None
    return next(each.explanation.message for each in world.last.splits[0].conditions if each.kind == kind)


@pytest.mark.parametrize("children", [False, True])
def test_halves_that_could_not_shake_hands_are_refused_by_name(children: bool) -> None:  # noqa: FBT001
    prefill = half(Role.Prefill)
    unequal = replace(half(Role.Decode), kv=KVSpec(Precision.FP8))
    world = split_world(prefill, unequal, children=children)
    world.turn(2)
    assert split_conditions(world)["Planned"] == ("False", "PairIncompatible")
    assert "spec.kvCache.precision is BF16 in prefill and FP8 in decode" in split_message(world)
    assert not children or (world.nodes_of("pd-prefill"), world.nodes_of("pd-decode")) == ([], [])


def test_halves_on_gpus_of_different_vendors_are_refused_by_name() -> None:
    world = split_world(half(Role.Prefill), replace(half(Role.Decode), placement=PlacementSpec(("MI300X",))))
    world.nodes.append(amd_board("amd-0"))
    world.turn(2)
    assert split_conditions(world)["Planned"] == ("False", "PairIncompatible")
    assert world.nodes_of("pd-prefill") == []


def test_a_split_that_moves_to_another_vendor_takes_its_image_along_and_keeps_its_version() -> None:
    """The release in status is of the old vendor, and the children carry its image in their specs."""
    there = PlacementSpec(("MI300X",))
    world = split_world(replace(half(Role.Prefill), placement=there), replace(half(Role.Decode), placement=there))
    world.nodes.extend(amd_board(f"amd-{i}") for i in range(2))
    world.splits["pd"] = replace(world.splits["pd"], status=SplitStatus(OLDER))
    for name in ("pd-prefill", "pd-decode"):
        record = world.pools[name]
        assert record.spec is not None
        forced = replace(record.spec.engine, name=OLDER.name, version=OLDER.version, image=OLDER.image)
        world.pools[name] = replace(record, spec=replace(record.spec, engine=forced))
    world.turn(2)
    wanted = load().release(EngineName.VLLM, OLDER.version, "amd")
    assert world.splits["pd"].status.engine == wanted
    assert world.status("pd-prefill").engine == world.status("pd-decode").engine == wanted


@pytest.mark.parametrize(
    ("scaling", "told"),
    [
        (ScalingSpec(max_replicas=2), "1 to 2 prefill and 4 to 10 decode replicas"),
        (ScalingSpec(max_replicas=40, max_gpus=16), "1 to 4 prefill"),
    ],
    ids=["maxReplicas", "maxGPUs"],
)
def test_a_ratio_that_the_bounds_never_allow_is_refused_by_name(scaling: ScalingSpec, told: str) -> None:
    world = split_world(half(Role.Prefill, scaling=scaling), half(Role.Decode, scaling=ScalingSpec(min_replicas=4)))
    record = world.splits["pd"]
    assert record.spec is not None
    world.splits["pd"] = replace(record, spec=replace(record.spec, ratio_min=5.0))
    world.turn(2)
    assert split_conditions(world)["Planned"] == ("False", "PairIncompatible")
    assert "ratio.min 5 cannot be kept" in split_message(world)
    assert told in split_message(world)
    assert world.nodes_of("pd-decode") == []


def test_while_halves_are_refused_the_split_still_tells_how_it_serves() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    record = world.splits["pd"]
    assert record.spec is not None
    unequal = replace(record.spec.decode, kv=KVSpec(Precision.FP8))
    world.splits["pd"] = replace(record, spec=replace(record.spec, decode=unequal))
    world.turn()
    assert {"Planned", "Placed", "SLOMet"} <= split_conditions(world).keys()
    assert (world.serving("pd-prefill"), world.serving("pd-decode")) == (1, 1)


@pytest.mark.parametrize("router", [RouterKind.Managed, RouterKind.Nothing])
def test_a_pair_of_tensorrt_llm_has_a_front_of_wefts_or_one_of_the_users_own(router: RouterKind) -> None:
    prefill, decode = (
        replace(half(role), engine=EngineSpec(name=EngineName.TensorRTLLM)) for role in (Role.Prefill, Role.Decode)
    )
    world = split_world(prefill, decode)
    world.splits["pd"] = split(prefill, decode, router)
    world.turn()
    assert split_conditions(world)["Planned"][0] == "True"
    assert world.nodes_of("pd-prefill")


@pytest.mark.parametrize(("engine", "planned"), [(EngineName.VLLM, "True"), (EngineName.SGLang, "False")])
def test_a_pair_behind_a_gateway_needs_a_sidecar_for_its_engine(engine: EngineName, planned: str) -> None:
    prefill, decode = (replace(half(role), engine=EngineSpec(name=engine)) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.splits["pd"] = split(prefill, decode, RouterKind.Gateway)
    world.turn()
    assert split_conditions(world)["Planned"][0] == planned
    assert bool(world.nodes_of("pd-prefill")) is (planned == "True")
    if planned == "False":
        assert split_message(world).endswith(f"not supported yet with engine {engine}: use VLLM, or Managed")


def test_a_split_tells_which_half_has_arguments_that_its_engine_does_not_know() -> None:
    decode = replace(half(Role.Decode), engine=EngineSpec(name=EngineName.VLLM, args=("--frobnicate",)))
    prefill = replace(half(Role.Prefill), engine=EngineSpec(name=EngineName.VLLM, args=("--numa-bind",)))
    world = split_world(prefill, decode)
    world.turn()
    assert split_conditions(world)["ArgumentsUnknown"] == ("True", "ArgumentUnknown")
    assert split_message(world, "ArgumentsUnknown").startswith("Decode pool: VLLM ")
    assert "--frobnicate" in split_message(world, "ArgumentsUnknown")


def test_mooncake_needs_a_front_of_the_users() -> None:
    """vllm-router would hand nothing over between engines that it discovers, without an error."""
    sides = [replace(half(role), kv=KVSpec(connector="Mooncake")) for role in (Role.Prefill, Role.Decode)]
    world = split_world(sides[0], sides[1])
    world.turn()
    assert split_conditions(world)["Planned"] == ("False", "FeatureUnsupported")
    assert "use NIXL, or spec.router.type None" in split_message(world)
    world.splits["pd"] = split(sides[0], sides[1], RouterKind.Nothing)
    world.turn()
    assert split_conditions(world)["Planned"][0] == "True"


@pytest.mark.parametrize(
    ("engine", "router", "words"),
    [
        (EngineName.SGLang, RouterKind.Managed, ""),
        (EngineName.SGLang, RouterKind.Gateway, "Gateway of a PDSplit is not supported yet with engine SGLang"),
        (EngineName.VLLM, RouterKind.Managed, "does not transfer KV with it on VLLM"),
        (EngineName.VLLM, RouterKind.Gateway, "does not transfer KV with it on VLLM"),
        (EngineName.TensorRTLLM, RouterKind.Managed, "connector Mooncake is not supported on TensorRT-LLM"),
    ],
)
def test_whether_mooncake_goes_with_a_front_is_up_to_the_engine(
    engine: EngineName, router: RouterKind, words: str
) -> None:
    """sglang-router tells decode where prefill is, and leaves to the engines what moves the KV."""
    chosen, kv = EngineSpec(name=engine), KVSpec(connector="Mooncake")
    prefill, decode = (replace(half(role), kv=kv, engine=chosen) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.splits["pd"] = split(prefill, decode, router)
    world.turn()
    assert split_conditions(world)["Planned"][0] == ("False" if words else "True")
    assert words in split_message(world)
