"""A pair of real vLLM under real routers, with clients that never pause: what is planned costs no token of theirs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from e2e.chaos.eyes import Eyes
from e2e.chaos.neighbours import neighbours, node_of
from e2e.chaos.pair import NAME, ROLES, Pair, kill, stalled
from e2e.chaos.report import Report
from e2e.chaos.traffic import Traffic
from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.chaos.report import Phase
    from e2e.chaos.traffic import Result
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

REPORT = REPOSITORY / "build" / "chaos.json"
ROUTERS = 2
CPU_SHARE = {"cpu": "100m"}
GATHERING_SECONDS = 5.0  # in which some streams end, and their successors wait for the first token
PROMPT_SECONDS = 12.0  # longer than routers need to see that a pod leaves
AT_ONCE_SECONDS = 0.5  # apart that streams end which one killed engine took along


def chaotic_split(team: Team) -> Json:
    """Two replicas a half, two routers, and time to drain the longest stream; on the real node, whatever else comes.

    All ask for the same part of a core, or an engine that starts would get next to nothing beside those that serve.
    """
    engine = team.pool(NAME)["spec"]["engine"]
    return team.split(
        NAME,
        engine=engine | {"resources": CPU_SHARE},
        router={"type": "Managed", "replicas": ROUTERS, "resources": CPU_SHARE},
        rollout={"drainTimeout": "240s"},
        placement={"nodeSelector": {"kubernetes.io/hostname": team.node.options.name}},
        scaling={"minReplicas": 2, "maxReplicas": 2},
    )


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a line although pytest captures output: the run is long, and its figures are its result."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    return line


@pytest.mark.timeout(2700)
def test_changes_of_a_pair_cost_no_token(operator: OperatorProcess, team: Team, say: Callable[[str], None]) -> None:
    """Every token of every stream comes while the pair grows, shrinks, rolls, moves and loses what stands around it."""
    assert operator.is_ready()
    team.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "router"))
    split = chaotic_split(team)
    team.apply(split)
    team.wait_for("pds", NAME, "Ready", seconds=600)
    phases: list[Phase] = []
    origin = time.monotonic()
    with Eyes(team, NAME) as eyes:
        traffic = Traffic(*team.service_address(NAME))
        try:
            with traffic:
                change_everything(Pair(team, eyes, traffic, split, phases, say), operator)
        finally:
            report = Report(origin, phases, traffic.results, tuple(eyes.engines.values()))
            report.write(REPORT)
            say(f"{report.table()}\n{REPORT}")
    assert_nothing_planned_cost_a_token(report)
    assert_generations_never_met(report)
    assert_kv_always_moved(report)
    assert_no_transfer_was_cut(report)


def change_everything(pair: Pair, operator: OperatorProcess) -> None:
    """One change after the other, the kills last; an engine starts while what needs none of its half goes on."""
    pair.wait_for(dict.fromkeys(ROLES, 2))
    with pair.phase("a busy decode pod is evicted"):
        evict_while_prompts_take_long(pair)
    for time_of_it in ("first", "second"):
        with pair.phase(f"the operator is killed, {time_of_it} time"):
            operator.kill()
            pair.wait_until_kv_moves()
            operator.resume()
    with pair.phase("one of two routers is deleted"):
        pair.delete_a_router()
    with pair.phase("a neighbour's node is cordoned"):
        cordon_a_neighbour(pair.team)
    with pair.phase("the evicted pod's successor starts"):
        pair.wait_for(dict.fromkeys(ROLES, 2))
    for role in ROLES:
        with pair.phase(f"{role} shrinks from 2 to 1"):
            pair.scale({role: 1})
    with pair.phase("the pair rolls to other arguments"):
        pair.roll(["--enforce-eager", "--max-num-seqs", "64"])
    with pair.phase("both halves grow from 1 to 2"):
        pair.scale(dict.fromkeys(ROLES, 2))
    assert_lost_kv_is_computed_again(pair)
    for role in ROLES:
        with pair.phase(f"a {role} engine is killed") as phase:
            kill_one(pair, role, phase)


def evict_while_prompts_take_long(pair: Pair) -> None:
    """Requests have their decode pod before their prompt is computed: they reach it long after it was told to go.

    A frozen engine shakes no hands, which one that computes a long prompt does: vLLM gives up after five seconds, and
    decode computes the prompt itself.
    """
    pair.wait_until_all_have_met()
    busiest = max(pair.eyes.staying("decode"), key=lambda engine: engine.last.running)
    with stalled(pair.eyes.staying("prefill")):
        time.sleep(GATHERING_SECONDS)
        pair.evict(busiest)
        time.sleep(PROMPT_SECONDS)
    pair.wait(lambda: busiest.gone is not None, f"{busiest.name} is gone")


def assert_lost_kv_is_computed_again(pair: Pair) -> None:
    """Decode engines are told so: without it, a prefill that dies takes along what decode was about to fetch."""
    for pod in pair.team.pods(f"{NAME}-decode"):
        command = pod["spec"]["containers"][0]["command"]
        transfer = json.loads(command[command.index("--kv-transfer-config") + 1])
        assert transfer["kv_load_failure_policy"] == "recompute"


def kill_one(pair: Pair, role: str, phase: Phase) -> None:
    """The busiest engine of a half ends without a word."""
    busiest = max(pair.eyes.staying(role), key=lambda engine: engine.last.running)
    phase.killed.append(busiest.address)
    kill(busiest)
    pair.wait(lambda: busiest.gone is not None, f"{busiest.name} is gone")


def cordon_a_neighbour(team: Team) -> None:
    """Its replica moves, and nothing else does."""
    with neighbours(team):
        team.wait_for("wpool", "neighbour", "Ready", seconds=60)
        before = node_of(team)
        team.kubectl("cordon", before)
        eventually(lambda: node_of(team) not in {"", before}, "the neighbour has moved", timeout_seconds=120)


def assert_nothing_planned_cost_a_token(report: Report) -> None:
    """A request may fail only while an engine is killed, and only if that engine had to do with it."""
    assert report.results
    kills = [phase for phase in report.phases if not phase.planned]
    unexplained = [failed for failed in report.failed if not any(explains(phase, failed, report) for phase in kills)]
    assert not unexplained, json.dumps([repr(failed) for failed in unexplained], indent=1)


def explains(kill: Phase, failed: Result, report: Report) -> bool:
    """Whether a kill may have cost this request: a prefill engine takes none along that was being decoded."""
    on_it = was_on_a_killed_one(kill, failed) or was_cut_with_one_that_was(kill, failed, report)
    return on_it and failed.during(kill.started, kill.ended) and not (failed.counted and failed.prefill in kill.killed)


def was_on_a_killed_one(kill: Phase, failed: Result) -> bool:
    return any(failed.was_on(address) for address in kill.killed)


def was_cut_with_one_that_was(kill: Phase, failed: Result, report: Report) -> bool:
    """An answer names its engines with its first token: who is cut before it is known by when that happens."""
    if failed.counted or failed.prefill or failed.decode or "cut" not in failed.error:
        return False
    lost = [other.ended for other in report.failed if other.counted and was_on_a_killed_one(kill, other)]
    return any(abs(failed.ended - ended) < AT_ONCE_SECONDS for ended in lost)


def assert_generations_never_met(report: Report) -> None:
    """The router's own choice, told in the id of each answer: both pods belong to one generation."""
    pairs = {engine.address: engine.pair for engine in report.engines if engine.address}
    chosen = [(pairs[result.prefill], pairs[result.decode]) for result in report.results if result.whole]
    assert len(set(pairs.values())) == 2
    assert {prefill for prefill, _ in chosen} == set(pairs.values()), "each generation served"
    assert all(prefill == decode for prefill, decode in chosen)


def assert_kv_always_moved(report: Report) -> None:
    """Decode pods fetched prompts before, during and after every change, and computed none before the first kill."""
    moments = [moment for phase in report.phases for moment in (phase.received[0], phase.received[-1])]
    assert moments[0] > 0
    assert all(phase.received[-1] > phase.received[0] for phase in report.phases)
    assert moments == sorted(moments)
    assert next(phase.computed[0] for phase in report.phases if not phase.planned) == 0


def assert_no_transfer_was_cut(report: Report) -> None:
    """No prefill pod was deleted before it was idle (ADR 0036), nor did KV of any expire."""
    left = [engine for engine in report.engines if engine.role == "prefill" and engine.deleted and engine.gone]
    killed = {address for phase in report.phases for address in phase.killed}
    drained = [engine for engine in left if engine.address not in killed]
    assert len(drained) == 2, "one as the half shrank, one as the pair rolled"
    for engine in drained:
        assert engine.once_deleted is not None, f"{engine.name} was not heard of after it was told to go"
        assert not engine.once_deleted.holds_requests, engine
        assert not engine.last.holds_requests, engine
        assert not engine.last.expired, engine
