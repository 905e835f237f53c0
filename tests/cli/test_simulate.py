"""`weft simulate` from its options to its answer."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests.catalog.configs import LLAMA
from tests.cli.simulated import ROWS, SHORT, SLO, data, fill, simulated
from tests.cli.terminal import node, pool, split, weft, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Json


@pytest.fixture(autouse=True)
def in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool, a split, both together, and two boards."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)


def test_a_pool_is_simulated_with_wefts_own_decisions() -> None:
    found = data()
    assert ("weft", "InferencePool/chat", SHORT) == (found["policy"], found["resource"], found["trace"])
    assert found["requests"] == found["completed"] > 60
    assert found["slo_attainment"] == 1.0
    assert found["gpu_hours"] >= found["oracle_gpu_hours"] > 0.0


def test_the_same_seed_has_the_same_answer_and_another_one_another() -> None:
    first, again, other = (data("--seed", seed) for seed in ("3", "3", "4"))
    for each in (first, again):
        each.pop("wall_seconds")
    assert first == again
    assert first["requests"] != other["requests"]


def test_policies_are_asked_on_the_same_requests() -> None:
    weft_, hpa, static = data("--policy", "weft, hpa", "--policy", "static")
    assert ["weft", "hpa", "static"] == [each["policy"] for each in (weft_, hpa, static)]
    assert weft_["requests"] == hpa["requests"] == static["requests"]


def test_the_oracle_is_a_policy_too() -> None:
    found = data("--policy", "oracle")
    assert "oracle" == found["policy"]
    assert found["slo_met"] is True


def test_a_split_has_two_pools() -> None:
    found = data(file="split.yaml")
    assert "PDSplit/reasoner" == found["resource"]
    assert ["Prefill", "Decode"] == [each["role"] for each in found["pools"]]
    assert found["completed"] == found["requests"]


def test_a_split_that_is_being_deleted_is_simulated_for_its_spec(tmp_path: Path) -> None:
    body = split()
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    body["status"] = {"generation": 7, "prefill": {"replicas": 3}}
    found = data(file=written(tmp_path / "leaving.yaml", body))
    assert found["completed"] == found["requests"] > 60
    assert found["reasons"] == data(file="split.yaml")["reasons"]


def test_halves_of_a_split_have_the_model_of_its_config_map(tmp_path: Path) -> None:
    text = json.dumps(LLAMA)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"config.json": text}}
    body = split()
    body["spec"]["model"] = {"id": "acme/mine", "config": {"configMapRef": {"name": "mine"}}}
    found = data(file=written(tmp_path / "mine.yaml", body, config))
    assert all(each["shape"] for each in found["pools"])
    assert found["ttft_seconds"]["p50"] is not None


def test_of_several_resources_one_is_asked() -> None:
    assert "PDSplit/reasoner" == data("--pool", "reasoner", file="both.yaml")["resource"]
    assert "InferencePool/chat" == data("--pool", "InferencePool/chat", file="both.yaml")["resource"]


def test_a_file_may_be_compressed_and_scaled(tmp_path: Path) -> None:
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress((tmp_path / "trace.csv").read_bytes()))
    assert 3 == data(trace="trace.csv")["requests"]
    assert 6 == data("--scale", "2", trace="trace.csv.gz")["requests"]


def test_rows_of_failed_requests_are_left_out_and_told(tmp_path: Path) -> None:
    rows = "5,GPT-4,500,50,550,API log\n6,GPT-4,400,0,400,API log\n7,GPT-4,300,9,309,API log\n"
    (tmp_path / "burst.csv").write_text(f"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n{rows}")
    told = "1 row is left out, without tokens of a prompt or of an answer"
    found, page = data(trace="burst.csv"), simulated(trace="burst.csv")
    assert (2, 1) == (found["requests"], found["left_out"])
    assert f"weft: burst.csv: {told}" in page.err
    assert told in page.out
    assert told not in simulated(trace="trace.csv").out


def test_requests_of_one_moment_are_paid_for_until_the_last_one_is_answered(tmp_path: Path) -> None:
    (tmp_path / "moment.csv").write_text(f"{ROWS}0,9,1\n0,9,2000\n")
    found = data("--html", "moment.html", trace="moment.csv")
    (served,) = found["pools"]
    assert [2, None] == [found["completed"], found["oracle_gpu_hours"]]
    assert found["ttft_seconds"]["p99"] + 1999 * found["tpot_seconds"]["p99"] == pytest.approx(
        found["seconds"], rel=0.01
    )
    held = found["seconds"] * served["gpus_per_replica"] * served["most_replicas_wanted"]
    assert held / 3600.0 == pytest.approx(found["gpu_hours"])
    assert "2 requests at once" in simulated(trace="moment.csv").out


def test_requests_that_are_too_long_for_any_replica_make_no_bound_higher(tmp_path: Path) -> None:
    """They are refused at once, and cost nobody anything."""
    rows = [(float(at), 500, 50) for at in range(120)] + [(60.5, 130_000, 2_000_000)]
    (tmp_path / "long.csv").write_text(ROWS + "".join("{},{},{}\n".format(*row) for row in sorted(rows)))
    found = data(trace="long.csv")
    assert (found["failed"], found["too_long"], found["slo_met"]) == (1, 1, True)
    assert found["gpu_hours"] >= found["oracle_gpu_hours"] > 0.0


@pytest.mark.parametrize("slo", [{"ttft": {"p95": "60s"}}, {}], ids=["a minute to wait", "no SLO"])
def test_what_may_wait_makes_no_bound_that_one_replica_is_below(tmp_path: Path, slo: object) -> None:
    """Bursts of more than it serves in a bin; it has done all of them by the next one."""
    file = written(tmp_path / "slow.yaml", pool(slo=slo, placement={"accelerators": ["H200"]}))
    bursts = "burst:rate=0.2,times=60,every=120,lasting=10,seconds=240,isl=8000,osl=1"
    found = data("--policy", "static", file=file, trace=bursts)
    assert (found["slo_met"], found["pools"][0]["most_replicas_ready"]) == (True, 1)
    assert found["gpu_hours"] >= found["oracle_gpu_hours"] > 0.9 * found["gpu_hours"]


def test_requests_that_no_replica_takes_are_told_with_what_one_takes(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text(f"{ROWS}0,500,50\n1,200000,50\n2,131000,73\n3,131000,72\n")
    page = simulated(trace="long.csv").out
    assert "\n2 requests are longer than the 131,072 tokens that a replica takes, and fail at once\n" in page
    later = simulated("--warm-up", "1.5", trace="long.csv").out
    assert "\n1 request is longer than the 131,072 tokens that a replica takes, and fails at once\n" in later
    assert "longer than" not in simulated("--warm-up", "2.5", trace="long.csv").out


def test_a_static_fleet_is_there_for_the_busiest_minute_from_the_beginning(tmp_path: Path) -> None:
    """Whatever was declared: for the peak it is what `weft plan` says where that rate is declared."""
    found = []
    for declared, rate in ((2, 1), (2, 12), (12, 12)):
        workload = {"requestsPerSecond": declared, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}}
        body = pool(slo=SLO, workload=workload, placement={"accelerators": ["L40S"]}, scaling={"maxReplicas": 40})
        file = written(tmp_path / "pool.yaml", body)
        trace = f"step:from=0.5,to={rate},at=200,seconds=400"
        outcome = json.loads(weft("simulate", "-f", file, "--trace", trace, "--policy", "static", "-o", "json").out)
        assert (0, True) == (outcome["replica_changes"], outcome["slo_met"])
        (fleet,) = outcome["pools"]
        assert fleet["most_replicas_wanted"] == fleet["most_replicas_ready"]
        found.append(fleet["most_replicas_ready"])
    assert 2 * found[0] < found[1] == found[2]


@pytest.mark.parametrize("router", ["Managed", "None"])
@pytest.mark.parametrize("lengths", [(1000, 6000), (6000, 1000)], ids=["longer", "shorter"])
def test_a_static_fleet_is_planned_for_the_lengths_of_its_trace(
    tmp_path: Path, router: str, lengths: tuple[int, int]
) -> None:
    """Prompts are six times as long as declared, or a sixth; so it is what is planned where they are declared."""
    alone: Json = {"shape": {"tensorParallel": 1}, "placement": {"accelerators": ["H200"]}, "router": {"type": router}}
    assert_planned_for(tmp_path, pool(slo=SLO, scaling={"maxReplicas": 60}, **alone), *lengths)


@pytest.mark.parametrize("lengths", [(1000, 6000), (6000, 1000)], ids=["longer", "shorter"])
def test_so_are_both_halves_of_a_static_split(tmp_path: Path, lengths: tuple[int, int]) -> None:
    halves: Json = {side: {"shape": {"tensorParallel": 1}} for side in ("prefill", "decode")}
    linked, rdma = node("board-0"), {"resources": {"rdma": {"resource": "rdma/ib", "count": 1}}}
    linked["status"]["allocatable"]["rdma/ib"] = "8"
    written(tmp_path / "nodes.yaml", linked)
    body = pool(slo=SLO, engine=rdma, placement={"accelerators": ["H200"]}, scaling={"maxReplicas": 60}, **halves)
    assert_planned_for(tmp_path, body | {"kind": "PDSplit"}, *lengths)


def assert_planned_for(folder: Path, body: Json, declared: int, tokens: int) -> None:
    """Sixteen requests come every second, as declared, with prompts that are not."""
    rate, answers = 16, {"mean": 200, "p95": 200}
    fleets = []
    for each in (declared, tokens):
        prompts = {"mean": each, "p95": each}
        body["spec"]["workload"] = {"requestsPerSecond": rate, "inputTokens": prompts, "outputTokens": answers}
        (planned,) = json.loads(weft("plan", "-f", written(folder / f"{each}.yaml", body), "-o", "json").out)
        fleets.append([half["study"]["bill"]["replicas"] for half in planned["pools"]])
    apart = 1.0001 / rate  # a minute has no request more than the rate says
    rows = "".join(f"{place * apart},{tokens},200\n" for place in range(70 * rate))
    (folder / "other.csv").write_text(f"{ROWS}{rows}")
    found = data("--policy", "static", file=f"{declared}.yaml", trace="other.csv")
    assert fleets[0] != fleets[1] == [half["most_replicas_wanted"] for half in found["pools"]]


def test_a_static_fleet_is_as_large_as_its_pool_may_be_and_counts_no_request_that_is_too_long(tmp_path: Path) -> None:
    file = written(
        tmp_path / "few.yaml", pool(slo=SLO, scaling={"maxReplicas": 2}, placement={"accelerators": ["L40S"]})
    )
    rows = "".join(f"{second / 20},1000,200\n" for second in range(600))
    (tmp_path / "long.csv").write_text(f"{ROWS}{rows}30,900000,10\n")
    asked = ("simulate", "-f", file, "--trace", "long.csv", "--policy", "static", "-o", "json")
    assert 2 == json.loads(weft(*asked).out)["pools"][0]["most_replicas_ready"]
    more = json.loads(weft(*asked, "--what-if", "spec.scaling.maxReplicas=60").out)
    assert 2 < more["pools"][0]["most_replicas_ready"] < 40


def test_a_static_fleet_stays_what_was_planned_headroom_and_all(tmp_path: Path) -> None:
    """One replica would serve the declared rate, were it not for the headroom."""
    workload = {"requestsPerSecond": 2, "inputTokens": {"mean": 3000}, "outputTokens": {"mean": 500}}
    slo = {"ttft": {"p90": "3s"}, "tpot": {"p90": "60ms"}}
    body = pool(model="Qwen/Qwen3-32B", workload=workload, slo=slo, scaling={"headroomPercent": 400})
    trace = "poisson:rate=1,seconds=400,isl=3000,osl=500"
    found = data("--policy", "static", file=written(tmp_path / "headroom.yaml", body), trace=trace)
    assert 0 == found["replica_changes"]
    assert 1 < found["pools"][0]["most_replicas_wanted"] == found["pools"][0]["most_replicas_ready"]
    assert [] == [each for each in found["reasons"] if each["reason"] == "ShapeChosen"]


def test_places_that_are_not_there_make_no_bound_higher(tmp_path: Path) -> None:
    file = written(tmp_path / "many.yaml", pool(slo=SLO, scaling={"minReplicas": 20, "maxReplicas": 20}))
    found = data(file=file)
    assert found["gpu_hours"] >= found["oracle_gpu_hours"] > 15 / 3600.0


def test_an_oracle_whose_orders_come_too_late_is_no_dearer_than_to_order_nothing(tmp_path: Path) -> None:
    """Starts take longer than the trace."""
    file = written(tmp_path / "late.yaml", pool(slo=SLO, placement={"accelerators": ["H200"]}))
    crowd = "step:from=1,to=60,at=5,seconds=30,isl=8000,osl=1"
    never = "spec.scaling.freezeUntil=2028-01-01T00:00:00Z"
    frozen, oracle = data("--policy", "weft", "--policy", "oracle", "--what-if", never, file=file, trace=crowd)
    assert frozen["slo_attainment"] == oracle["slo_attainment"] < 0.95
    assert oracle["gpu_hours"] <= frozen["gpu_hours"]


def test_a_warm_up_leaves_nothing_of_requests_of_one_moment(tmp_path: Path) -> None:
    (tmp_path / "moment.csv").write_text(f"{ROWS}0,9,9\n")
    ending = simulated("--warm-up", "1", trace="moment.csv")
    assert ending.code == 2
    assert "--warm-up leaves nothing" in ending.err


def test_the_warm_up_does_not_count() -> None:
    assert 2 == data("--warm-up", "10", trace="trace.csv")["requests"]


def test_what_if_changes_what_is_planned() -> None:
    found = data("--what-if", "spec.slo.ttft.p99=2s", "--what-if", "spec.placement.accelerators=[H200]")
    assert {"p95": 1.0, "p99": 2.0} == found["slo"]["ttft_seconds"]


def test_a_node_that_fails_is_told() -> None:
    found = data("--fail", "board-0@30s", "--fail", "board-1@10s")
    assert [("board-1", 10.0), ("board-0", 30.0)] == [(each["node"], each["at_seconds"]) for each in found["faults"]]


def test_clients_that_do_not_wait_try_again_or_fail() -> None:
    """A pool of one replica that gets ten times what it declared."""
    crowded = "poisson:rate=60,seconds=120,isl=2000,osl=200"
    fixed = ("--what-if", "spec.scaling.maxReplicas=1")
    patient, hasty, again = (
        data(*fixed, *options, trace=crowded)
        for options in ((), ("--patience", "2"), ("--patience", "2", "--retries", "3"))
    )
    assert (patient["failed"], patient["retried"], hasty["retried"]) == (0, 0, 0)
    assert hasty["failed"] > 0
    assert again["retried"] > 0
    assert max(each["ttft_seconds"]["p99"] for each in (hasty, again)) < patient["ttft_seconds"]["p99"]


def test_another_front_gives_other_latencies() -> None:
    several = ("--what-if", "spec.scaling.minReplicas=3")
    least, turns = (data(*several, "--front", rule) for rule in ("LeastLoad", "RoundRobin"))
    assert least["requests"] == turns["requests"] == turns["completed"]
    assert least["ttft_seconds"] != turns["ttft_seconds"]


def test_a_step_is_followed_within_half_a_minute(tmp_path: Path) -> None:
    """From nothing to 20 requests/s, with starts of 110 s: the first order is for all that it needs in the end.

    With what the backlog asks for, and for as long as nobody knows how fast the engines are, it is a few times that.
    """
    wishes = {
        "slo": {"ttft": {"p95": "2s"}, "tpot": {"p95": "40ms"}},
        "placement": {"accelerators": ["H200"]},
        "scaling": {"maxReplicas": 60},
        "workload": {"requestsPerSecond": "500m", "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}},
    }
    body = pool(model="meta-llama/Llama-3.3-70B-Instruct")
    body["spec"] |= wishes
    file = written(tmp_path / "large.yaml", body)
    step = "step:from=0,to=20,at=300,seconds=1800,isl=1000,osl=200"
    ending = weft("simulate", "-f", file, "--trace", step, "--start-up", "110", "-o", "json")
    assert ending.code == 0, ending.err
    found = json.loads(ending.out)
    counts = [
        (reason["at_seconds"], int(reason["message"].split()[2]))
        for reason in found["reasons"]
        if reason["reason"] in {"ScaleUp", "ScaleDown"}
    ]
    ordered = max(count for at, count in counts if at <= 330.0)
    assert ordered >= 0.95 * counts[-1][1] > 4.0
    assert max(count for _, count in counts) <= 2.5 * counts[-1][1]
    assert found["slo_attainment"] > 0.8


def test_a_target_next_to_what_an_idle_replica_does_is_met_by_hardly_more_than_fixed_replicas_need(
    tmp_path: Path,
) -> None:
    """TTFT p95 of 250 ms, where an idle replica takes 200: six fixed ones take 9.0 GPU-hours, 96.9 % in time."""
    body = pool(model="meta-llama/Llama-3.1-8B-Instruct")
    body["spec"] |= {
        "slo": {"ttft": {"p95": "250ms"}},
        "placement": {"accelerators": ["L40S"]},
        "scaling": {"maxReplicas": 100},
        "workload": {"requestsPerSecond": 4, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}},
    }
    file = written(tmp_path / "tight.yaml", body)
    step = "step:from=4,to=12,at=1800,seconds=5400"
    ending = weft("simulate", "-f", file, "--trace", step, "--start-up", "120", "-o", "json")
    assert ending.code == 0, ending.err
    found = json.loads(ending.out)
    assert found["slo_attainment"] >= 0.965
    assert found["gpu_hours"] <= 10.5


def test_while_it_is_blind_no_count_changes() -> None:
    grows = "step:from=1,to=30,at=60,seconds=600,isl=2000,osl=200"
    seen, blind = (data(*options, trace=grows) for options in ((), ("--blind", "1m-30m")))
    assert seen["replica_changes"] > 0
    assert blind["replica_changes"] == 0


def test_without_a_fabric_it_has_nodes_of_the_planned_accelerator() -> None:
    ending = weft("simulate", "-f", "pool.yaml", "--trace", SHORT)
    assert ending.code == 0, ending.err
    assert "no --fabric: simulated on an empty cluster with 64 nodes" in ending.out
    assert "within the SLO" in ending.out


def test_the_page_is_written_beside_the_answer(tmp_path: Path) -> None:
    assert simulated("--html", "report.html").code == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
