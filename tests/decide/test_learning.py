"""Design sections 6 and 8: what a running pool teaches is persisted, used for its plan and capacity, and reset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.decide.test_splits import half, over_rdma, split_world
from tests.decide.world import WORKLOAD, World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.catalog import load
from weft.decide.measured.learning import MOST_IN_A_PASS
from weft.decide.plans.pair import HALVES
from weft.domain.reasons import Reason
from weft.domain.shape import Calibration, EngineName, Shape
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.spec import EngineSpec
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ReplicaModel, at_engine, at_engine_after_handover

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.shape import Percentiles

STEP = 30.0
RATE = 2.0  # of one replica
SLO = Slo(ttft=((95, 1.0),), tpot=((95, 0.02),))
SPEC = replace(pool_spec(1, external(1)), slo=SLO)


@dataclass
class Serving:
    """A world in which engines are so many times slower than the model believes."""

    world: World
    truth: dict[str, Calibration]
    roles: dict[str, Role] = field(default_factory=dict)
    counted: Callable[[ReplicaModel, Workload, Role], tuple[Percentiles, Percentiles] | None] = at_engine
    load: Workload = WORKLOAD
    wire: str = "RDMA"

    @classmethod
    def of(cls, truth: Calibration, *names: str) -> Serving:
        world = World.of([board("b-0")], *(pool(name, SPEC) for name in names))
        world.turn(6)
        return cls(world, dict.fromkeys(names, truth))

    def run(self, minutes: int) -> None:
        """Metrics as the true engines make them, and a pass every half a minute."""
        for _ in range(2 * minutes):
            for name in self.truth:
                self.world.observations[f"uid-{name}"] = self.seen(name, self.load)
            self.world.turn(1, STEP)

    def seen(self, name: str, load_of: Workload = WORKLOAD) -> PoolObservation:
        replicas = max(1, self.world.serving(name))
        plan = self.world.status(name).plan
        assert plan is not None
        true = replace(replica_of(plan.shape), calibration=self.truth[name], wire=self.wire)
        found = self.counted(true, replace(load_of, requests_per_second=RATE), self.roles.get(name, Role.Aggregated))
        assert found is not None
        ready = [each for each in self.world.pods.values() if each.ready and not each.terminating]
        pods = tuple(
            PodObservation(each.name, 5.0, RATE, load_of.input_tokens, load_of.output_tokens)
            for each in ready
            if each.identity is not None and each.identity.pool_uid == f"uid-{name}" and not each.identity.rank
        )
        return PoolObservation(
            expected=replicas,
            answered=replicas,
            age_seconds=5.0,
            requests_per_second=RATE * replicas,
            input_tokens=load_of.input_tokens,
            output_tokens=load_of.output_tokens,
            prefix_hit=0.0,
            waiting=0.0,
            running=10.0,
            kv_usage=0.2,
            input_tokens_p95=load_of.input_tokens_p95,
            output_tokens_p95=load_of.output_tokens_p95,
            ttft_mean=found[0].mean,
            tpot_mean=found[1].mean,
            pods=pods,
        )

    def factors(self, name: str = "chat") -> Calibration | None:
        """In force, of the latest shape."""
        known = self.world.status(name).calibration
        return known[0].factors if known else None

    def capacity(self, name: str = "chat") -> float:
        plan = self.world.status(name).plan
        assert plan is not None
        return plan.prediction.capacity


def replica_of(shape: Shape) -> ReplicaModel:
    catalog = load()
    architecture, accelerator = catalog.architecture(SPEC.model.model_id), catalog.accelerator(shape.accelerator)
    assert architecture is not None
    efficiency = catalog.efficiency(accelerator, shape.engine, shape.precision)
    return ReplicaModel(architecture, shape, accelerator, efficiency, accelerator.memory_bytes)


def test_a_slow_engine_is_learnt_persisted_and_planned_with() -> None:
    serving = Serving.of(Calibration(1.5, 1.3), "chat")
    believed = serving.capacity()
    serving.run(120)
    found = serving.factors()
    assert found is not None
    assert 1.4 < found.prefill < 1.6
    assert 1.24 < found.decode < 1.36
    assert found.points >= 25
    assert serving.world.status("chat").plan is not None
    known = serving.world.status("chat").calibration
    assert [(known[0].subject.shape, known[0].subject.model)] == [("H200 BF16 TP1", SPEC.model.model_id)]
    slower = Serving.of(Calibration(1.0, 1.0), "chat")
    slower.run(120)
    assert serving.capacity() < 0.9 * slower.capacity()
    assert slower.capacity() > believed  # the same engine as predicted, but known better


def test_a_change_that_is_phased_in_is_told_with_every_step_of_it_and_not_in_between() -> None:
    """Engines that come to take thrice as long: after an hour all of that is in force, and nothing is left to tell."""
    serving, told = Serving.of(Calibration(), "chat"), []
    serving.run(30)
    found = serving.factors()
    assert found is not None
    assert found.points >= 10  # from then on factors in force change every five minutes at most
    serving.truth["chat"] = Calibration(3.0, 3.0)
    for _ in range(120):
        before = serving.factors()
        serving.world.observations["uid-chat"] = serving.seen("chat")
        serving.world.turn(1, STEP)
        events = [each for each in serving.world.decision("chat").events if each.reason is Reason.CalibrationPhased]
        assert not events or serving.factors() != before
        told += events
    assert 2 <= len(told) <= 8
    assert (
        "what capacity is based on: capacity is corrected by about a third now, and again every 300 s"
        in told[0].message
    )


def test_capacity_falls_by_a_third_at_a_time_where_a_target_is_close_to_what_an_idle_replica_does() -> None:
    """One in twenty tokens within 10 ms: a step that gets 1.1 times as long costs a third of the capacity there."""
    tight = replace(SPEC, slo=Slo(ttft=((95, 1.0),), tpot=((95, 0.010),)))
    serving = Serving(World.of([board("b-0")], pool("chat", tight)), {"chat": Calibration()})
    serving.world.turn(6)
    serving.run(30)
    serving.truth["chat"] = Calibration(1.6, 1.6)
    capacities = [serving.capacity()]
    for _ in range(35):
        serving.run(1)
        if serving.capacity() != capacities[-1]:
            capacities.append(serving.capacity())
    assert capacities[-1] < 0.5 * capacities[0]
    assert all(later / earlier > 0.64 for earlier, later in pairwise(capacities))


def test_scaling_follows_what_was_learnt() -> None:
    """The same traffic takes more replicas of an engine that is slower than predicted."""
    counts = []
    for truth in (Calibration(), Calibration(1.8, 1.8)):
        scaling = replace(SPEC.scaling, mode=pool_spec().scaling.mode)
        serving = Serving.of(truth, "chat")
        serving.world.edit("chat", replace(SPEC, scaling=replace(scaling, replicas=1)))
        serving.run(90)
        many = replace(serving.seen("chat"), requests_per_second=60.0)
        serving.world.observations["uid-chat"] = many
        serving.world.turn(1, STEP)
        counts.append(serving.world.decision("chat").recommended)
    assert counts[0] < counts[1]


def test_what_was_learnt_survives_a_restart() -> None:
    """L5: the status holds it; deciding without memory decides the same."""
    serving = Serving.of(Calibration(1.5, 1.3), "chat")
    serving.run(60)
    before = serving.world.status("chat")
    serving.world.memory = {}
    serving.world.decide()
    after = serving.world.status("chat")
    assert (after.calibration, after.plan) == (before.calibration, before.plan)
    memory = serving.world.memory["uid-chat"].calibration
    assert memory is not None
    assert memory.factors == before.calibration[0].factors


def test_steady_metrics_end_in_a_steady_status() -> None:
    """L3 and L1: after learning, the same metrics write a dozen times in a day, and the plan not at all."""
    serving = Serving.of(Calibration(1.4, 0.9), "chat")
    serving.run(120)
    learnt = serving.world.status("chat")
    writes = []
    for _ in range(180):
        serving.run(1)
        writes.append(serving.world.status("chat"))
    assert len(set(writes)) <= 3  # as points double
    assert {status.plan for status in writes} == {learnt.plan}


def test_an_edited_version_or_model_starts_from_nothing() -> None:
    serving = Serving.of(Calibration(1.8, 1.8), "chat")
    serving.run(60)
    spec = serving.world.pools["chat"].spec
    assert spec is not None
    slow = serving.capacity()
    assert serving.world.status("chat").engine is not None
    serving.world.edit("chat", replace(spec, engine=replace(spec.engine, version="0.20.0")))
    serving.world.turn(8)
    assert serving.capacity() > 1.3 * slow
    memory = serving.world.memory["uid-chat"].calibration
    assert memory is not None
    assert (memory.factors.prefill, memory.factors.decode) == (1.0, 1.0)
    serving.truth["chat"] = Calibration(1.0, 1.0)
    serving.run(8)
    assert [each.subject.release.version for each in serving.world.status("chat").calibration] == ["0.20.0"]


def test_another_shape_has_the_factors_of_its_kin_and_the_old_shape_keeps_its_own() -> None:
    """A pool that left a shape because it is slow must not return to it for having forgotten that."""
    serving = Serving.of(Calibration(1.6, 1.6), "chat")
    serving.run(60)
    first = serving.factors()
    spec = serving.world.pools["chat"].spec
    assert spec is not None
    assert first is not None
    serving.world.edit("chat", replace(spec, shape=replace(spec.shape, tensor_parallel=2)))
    serving.world.turn(8)
    memory = serving.world.memory["uid-chat"].calibration
    assert memory is not None
    assert memory.factors == Calibration(first.prefill, first.decode)
    serving.truth["chat"] = Calibration(1.0, 1.0)
    serving.run(60)
    found = {each.subject.shape: each.factors for each in serving.world.status("chat").calibration}
    assert found["H200 BF16 TP1"] == first
    assert found["H200 BF16 TP2"].decode < 1.1


def test_a_pool_that_chooses_freely_does_not_flap_however_its_shapes_differ() -> None:
    """Each shape is found out once: TP1 is twice as slow as predicted, the others are as predicted."""
    serving = Serving.of(Calibration(1.0, 1.0), "chat")
    spec = replace(SPEC, shape=replace(SPEC.shape, tensor_parallel=None))
    serving.world.edit("chat", replace(spec, slo=Slo(tpot=((95, 0.012),))))
    serving.world.turn(8)
    shapes = []
    for _ in range(250):
        plan = serving.world.status("chat").plan
        assert plan is not None
        slow = plan.shape.tensor_parallel == 1
        serving.truth["chat"] = Calibration(2.0, 2.0) if slow else Calibration(1.0, 1.0)
        serving.run(1)
        shapes.append(str(plan.shape))
    changes = sum(one != other for one, other in pairwise(shapes))
    assert changes == 1, shapes
    assert len(set(shapes[-150:])) == 1


@pytest.mark.parametrize("missing", ["ttft_mean", "tpot_mean", "kv_usage", "input_tokens"])
def test_missing_metrics_leave_everything_as_it_is(missing: str) -> None:
    changes: dict[str, Any] = {missing: None}
    serving = Serving.of(Calibration(1.5, 1.5), "chat")
    serving.run(20)
    before = serving.world.status("chat").calibration
    partial = replace(serving.seen("chat"), **changes)
    for _ in range(30):
        serving.world.observations["uid-chat"] = partial
        serving.world.turn(1, STEP)
    assert serving.world.status("chat").calibration == before


def test_nothing_is_learnt_while_replicas_start() -> None:
    serving = Serving.of(Calibration(1.5, 1.5), "chat")
    serving.world.engines_start = False
    serving.run(30)
    assert serving.factors() is None


def test_a_fleet_is_measured_one_pool_at_a_time() -> None:
    """Those that waited longest first; a second pass at the same time measures nobody."""
    names = [f"pool-{i}" for i in range(6)]
    serving = Serving.of(Calibration(1.5, 1.5), *names)
    serving.run(2)
    seen = []
    for _ in range(8):
        for name in names:
            serving.world.observations[f"uid-{name}"] = serving.seen(name)
        serving.world.turn(1, STEP)
        seen.append(sum(serving.factors(name) is not None for name in names))
        decided = serving.world.decide()
        assert serving.world.decide() == decided
    assert all(after - before <= MOST_IN_A_PASS for before, after in pairwise([0, *seen]))
    assert seen[-1] == len(names)


def test_both_halves_of_a_split_learn_what_they_do_and_are_planned_with_it() -> None:
    prefill, decode = (over_rdma(replace(half(role, 1), slo=SLO)) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.turn(6)
    names = ("pd-prefill", "pd-decode")
    serving = Serving(world, dict.fromkeys(names, Calibration()), roles=dict(zip(names, HALVES, strict=True)))
    serving.run(90)
    exact = [serving.capacity(name) for name in names]
    serving.truth = dict.fromkeys(names, Calibration(1.5, 1.5))
    serving.run(90)
    found = [serving.factors(name) for name in names]
    assert [each is not None and (each.prefill > 1.4, each.decode > 1.4) for each in found] == [
        (True, False),
        (False, True),
    ]
    assert all(serving.capacity(name) < before for name, before in zip(names, exact, strict=True))


@pytest.mark.parametrize("p95", [1050, 2600])
def test_prompts_that_scatter_otherwise_than_declared_are_no_fault_of_the_engine(p95: float) -> None:
    serving = Serving.of(Calibration(), "chat")
    serving.load = replace(WORKLOAD, input_tokens=8000, input_tokens_p95=8 * p95)
    serving.run(60)
    found = serving.factors()
    assert found is not None
    assert found.points >= 10
    assert [found.prefill, found.decode] == pytest.approx([1.0, 1.0], abs=0.05)


@pytest.mark.parametrize(
    ("engine", "counted"),
    [(EngineName.VLLM, at_engine), (EngineName.SGLang, at_engine_after_handover)],
    ids=["vLLM", "SGLang"],
)
def test_the_time_that_a_prompts_kv_travels_is_no_slowness_of_the_engine(
    engine: EngineName, counted: Callable[..., tuple[Percentiles, Percentiles] | None]
) -> None:
    """VLLM's metrics end with its own first token, SGLang's with the transfer: what is as predicted teaches nothing."""
    prefill, decode = (
        over_rdma(replace(half(role, 1), slo=SLO, engine=EngineSpec(name=engine)))
        for role in (Role.Prefill, Role.Decode)
    )
    world = split_world(prefill, decode)
    world.turn(6)
    long = replace(WORKLOAD, input_tokens=8000, input_tokens_p95=16000)  # of short ones SGLang tells its API
    serving = Serving(world, {"pd-prefill": Calibration()}, {"pd-prefill": Role.Prefill}, counted, long)
    serving.run(60)
    found = serving.factors("pd-prefill")
    assert found is not None
    assert found.points >= 10
    assert found.prefill == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("role", HALVES)
@pytest.mark.parametrize(
    ("engine", "counted"),
    [(EngineName.VLLM, at_engine), (EngineName.SGLang, at_engine_after_handover)],
    ids=["vLLM", "SGLang"],
)
def test_a_link_that_is_taken_for_full_keeps_no_half_from_learning(
    engine: EngineName, counted: Callable[..., tuple[Percentiles, Percentiles] | None], role: Role
) -> None:
    """Over TCP: KV of 8,000 tokens takes half a second and more, and two prompts a second come all the same."""
    prefill, decode = (replace(half(each, 1), slo=SLO, engine=EngineSpec(name=engine)) for each in HALVES)
    world, name = split_world(prefill, decode), f"pd-{role.value.lower()}"
    world.turn(6)
    long = replace(WORKLOAD, input_tokens=8000, input_tokens_p95=16000)
    serving = Serving(world, {name: Calibration(1.5, 1.5)}, {name: role}, counted, long, "TCP")
    serving.run(60)
    found = serving.factors(name)
    assert found is not None
    assert (found.prefill if role is Role.Prefill else found.decode) > 1.2


def test_a_pass_after_a_measurement_finds_nothing_new() -> None:
    """L1 and L3: what is learnt is decided with in the same pass, shapes and counts included."""
    serving = Serving.of(Calibration(2.0, 2.0), "chat")
    free = replace(SPEC, shape=replace(SPEC.shape, tensor_parallel=None), slo=Slo(tpot=((95, 0.012),)))
    serving.world.edit("chat", free)
    for _ in range(60):
        serving.run(1)
        first = serving.world.decide()
        assert serving.world.decide() == first
    assert serving.factors() is not None
