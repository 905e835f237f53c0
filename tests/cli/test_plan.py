"""`weft plan`: says what would be chosen, where it would go and why, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.catalog.configs import SHORT_LLAMA
from tests.cli.terminal import listed, node, pod, pool, shell, split, weft, written
from weft.catalog import load
from weft.cli.cluster.world import imagined_world
from weft.fabric import build_fabric

ROOT = Path(__file__).parents[2]
LARGE = "deepseek-ai/DeepSeek-V3"
FILES = [*sorted((ROOT / "examples").glob("*.yaml")), ROOT / "e2e" / "demo" / "pools.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_shipped_example_gets_a_shape_and_a_place(file: Path) -> None:
    ending = weft("plan", "-f", str(file))
    assert ending.code == 0, ending.err
    assert "Planned True" in ending.out
    assert "Placed True" in ending.out
    assert ending.out.count("why the others lost") >= 1


DEVICES = {"rdma": {"resource": "rdma/ib", "count": 1}}


def test_without_a_fabric_it_says_so_and_names_no_imagined_node(tmp_path: Path) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool()))
    assert ending.out.startswith("no --fabric and no --context")
    assert "replica 0" not in ending.out
    said = " ".join(ending.out.split())
    assert "considered: A100, " in said
    assert "MI355X" in said
    assert "name yours in spec.placement.accelerators or with --accelerator, or give nodes as --fabric 4xH100" in said


@pytest.mark.parametrize(
    ("engine", "named", "left_out"),
    [({}, "MI355X;", "Gaudi3"), ({"name": "VLLM"}, "MI355X;", "Gaudi3"), ({"name": "TensorRTLLM"}, "L4;", "MI300X")],
)
def test_only_what_an_engine_of_the_pool_serves_was_considered(
    tmp_path: Path, engine: dict[str, str], named: str, left_out: str
) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool(engine=engine)))
    (said,) = (line for line in " ".join(ending.out.split()).split("considered: ")[1:])
    considered = said.partition(" the lowest cost")[0]
    assert considered.endswith(named)
    assert left_out not in considered


def test_without_a_fabric_a_pool_that_names_its_accelerators_is_not_told_how(tmp_path: Path) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool(placement={"accelerators": ["H100"]})))
    assert ending.out.startswith("no --fabric and no --context")
    assert "considered:" not in ending.out


def test_a_split_over_nvlink_is_planned_without_a_cluster_in_one_rack(tmp_path: Path) -> None:
    body = split()
    body["spec"] |= {"kvTransfer": {"transport": "NVLink"}, "router": {"type": "None"}}
    body["spec"] |= {"shape": {"tensorParallel": 4}, "placement": {"accelerators": ["GB200"]}}
    ending = weft("plan", "-f", written(tmp_path / "split.yaml", body))
    assert ending.out.count("Planned True") == 2
    assert ending.out.count("Placed True") == 2


def test_replicas_go_where_the_fabric_has_room(tmp_path: Path) -> None:
    nodes = listed(node("board-0"), node("board-1"), pod("training", "board-0", 8))
    ending = weft(
        "plan", "-f", written(tmp_path / "pool.yaml", pool()), "--fabric", written(tmp_path / "nodes.yaml", nodes)
    )
    assert ending.code == 0
    assert "replica 0  on board-1" in ending.out


@pytest.mark.parametrize(
    ("typed", "written_out"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("META-LLAMA/Llama-3.1-8B-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)
def test_an_exported_model_has_the_whole_name_of_its_repository(tmp_path: Path, typed: str, written_out: str) -> None:
    """Without the organisation there is nothing to download."""
    file = tmp_path / "pool.yaml"
    ending = weft("plan", "--model", typed, "--accelerator", "h200", "--precision", "bf16", "--export", str(file))
    assert ending.code == 0, ending.err
    model = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]["model"]
    assert {"id": written_out, "precision": "BF16"} == {name: model[name] for name in ("id", "precision")}


def test_accelerators_that_no_shape_could_use_are_left_out_with_why(tmp_path: Path) -> None:
    """Else whoever has them looks for them among the shapes that lost."""
    rack = node("tray-0", "NVIDIA-GB200", 4)
    rack["spec"]["taints"] = [{"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}]
    nodes = written(tmp_path / "nodes.yaml", listed(node("board-0"), rack, node("b200", "NVIDIA-B200")))
    taint = "kubernetes.io/arch=arm64:NoSchedule"
    why = f"node tray-0 has the taint {taint}, which spec.placement.tolerations does not tolerate"
    told = {"accelerator": "GB200", "reason": "NodeTainted", "message": why}
    plain = written(tmp_path / "pool.yaml", pool())
    said = " ".join(weft("plan", "-f", plain, "--fabric", nodes).out.split())
    assert f"GB200 is left out: {why}" in said
    (found,) = json.loads(weft("plan", "-f", plain, "--fabric", nodes, "-o", "json").out)[0]["pools"]
    assert [told] == found["leftOut"]
    arm = {"key": "kubernetes.io/arch", "operator": "Exists"}
    for placement in ({"tolerations": [arm]}, {"accelerators": ["H200"]}):
        file = written(tmp_path / "other.yaml", pool(placement=placement))
        assert "left out" not in weft("plan", "-f", file, "--fabric", nodes).out


def test_nodes_may_be_counted_instead_of_dumped() -> None:
    """Who has no cluster yet asks whether four boards are enough."""
    wanted = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--isl", "2000:6000", "--osl", "300")
    asked = ("plan", *wanted, "--ttft", "p95=2s", "--tpot", "p95=50ms", "--fabric", "4xH100", "-o", "json")
    enough, more = weft(*asked, "--rate", "5"), weft(*asked, "--rate", "50")
    assert (0, 1) == (enough.code, more.code), enough.err + more.err
    (resource,) = json.loads(enough.out)
    (told,) = resource["pools"]
    names = {name for each in told["assignments"] for name in each["nodes"]}
    assert names
    assert names <= {f"h100-0{index}" for index in range(4)}
    assert "H100" in told["plan"]["shape"]


@pytest.mark.parametrize("typed", ["4 x H100", "4*h100", "4XH100", "4\u00d7H100", "4x8xH100", " 3xH100 , 1xH200"])
def test_a_count_may_be_written_in_other_ways(typed: str) -> None:
    boards = json.loads(weft("fabric", "--fabric", typed, "-o", "json").out)["domains"]
    assert [8] * 4 == [each["gpus"] for each in boards]


def test_the_stand_in_of_tests_is_planned_on_by_its_label_only() -> None:
    ending = weft("fabric", "--fabric", "2xCPU-TEST", "-o", "json")
    assert {"cpu"} == {each["accelerator"] for each in json.loads(ending.out)["domains"]}, ending.err


def test_counted_trays_are_racks_unless_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_racks = json.loads(weft("fabric", "--fabric", "36xGB200,1xH200", "-o", "json").out)["domains"]
    assert [8, 72, 72] == sorted(each["gpus"] for each in two_racks)
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "1xH200", node("mine"))
    (mine,) = json.loads(weft("fabric", "--fabric", "1xH200", "-o", "json").out)["domains"]
    assert ["mine"] == [each["name"] for each in mine["nodes"]]


def test_a_rack_takes_a_replica_that_no_board_holds(tmp_path: Path) -> None:
    """16 GPUs of one clique are one NVLink domain, whatever nodes they are in."""
    nodes = listed(node("board-0"), *(node(f"rack-{i}", "NVIDIA-GB200", 4, "uuid.1") for i in range(4)))
    wide = pool(model=LARGE, shape={"tensorParallel": 16})
    ending = weft(
        "plan", "-f", written(tmp_path / "pool.yaml", wide), "--fabric", written(tmp_path / "nodes.yaml", nodes)
    )
    assert ending.code == 0, ending.out
    assert "replica 0  on rack-0, rack-1, rack-2, rack-3" in ending.out


def test_no_slot_is_a_no_that_says_what_would_make_room(tmp_path: Path) -> None:
    """Two pools compete for one board: the second is told who holds it."""
    file = written(tmp_path / "pools.yaml", pool("first", LARGE), pool("second", LARGE))
    ending = weft("plan", "-f", file, "--fabric", written(tmp_path / "nodes.yaml", node("board-0")))
    assert ending.code == 1
    assert ending.complaints == []
    assert "NoSlot" in ending.out
    assert "to make room" in ending.out


@pytest.mark.parametrize(
    ("body", "reason", "hint"),
    [
        (pool(shape={"tensorParallel": 3}), "ShapeInvalid", "allowed: 1, 2, 4"),
        (pool(placement={"accelerators": ["GB200"]}), "NoAccelerator", "GB200"),
    ],
    ids=["a pin that divides nothing", "an accelerator that is not there"],
)
def test_no_shape_is_a_no_with_its_reason(tmp_path: Path, body: dict[str, Any], reason: str, hint: str) -> None:
    nodes = written(tmp_path / "nodes.yaml", node("board-0"))
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", body), "--fabric", nodes)
    assert ending.code == 1
    assert "Planned False" in ending.out
    assert reason in ending.out
    assert hint in ending.out


def test_an_argument_that_the_release_lacks_is_told_and_no_reason_to_refuse() -> None:
    body = pool(engine={"name": "VLLM", "version": "0.32.0", "args": ["--numa-bnd"]})
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump(body))
    assert 0 == ending.code
    assert "ArgumentsUnknown True" in ending.out
    assert "--numa-bnd, perhaps --numa-bind" in ending.out


@pytest.mark.parametrize(("replicas", "told"), [(2, "they serve 3.03 of 4 requests/s"), (3, "")])
def test_a_count_of_others_that_is_too_small_for_the_declared_rate_is_told(replicas: int, told: str) -> None:
    """The plan is about the declared rate, and Weft does not change their count."""
    body = yaml.safe_load((ROOT / "examples" / "llama-70b.yaml").read_text())
    body["spec"]["scaling"] |= {"replicas": replicas}
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump(body))
    (line,) = (line for line in ending.out.splitlines() if "as spec.scaling.replicas says" in line)
    assert line.endswith(told or "says")


@pytest.mark.parametrize("body", [pool(), split()], ids=["pool", "split"])
def test_best_effort_is_a_no_that_shows_the_closest_plan(body: dict[str, Any]) -> None:
    """Who asks in a script must not take it for a plan that meets the SLO."""
    tight = {**body["spec"], "slo": {"tpot": {"p95": "1ms"}}, "placement": {"accelerators": ["H200"]}}
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump({**body, "spec": tight}))
    assert 1 == ending.code
    assert "Planned True  BestEffort: no shape meets the SLO" in ending.out
    assert "Placed True" in ending.out
    loose = {**tight, "slo": {"tpot": {"p95": "100ms"}}}
    assert 0 == weft("plan", "-f", "-", stdin=yaml.safe_dump({**body, "spec": loose})).code


NAMED = {"id": "acme/secret", "config": {"configMapRef": {"name": "secret"}}}


def config_map(key: str = "config.json", namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": "secret", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: json.dumps(SHORT_LLAMA)}}


@pytest.mark.parametrize("body", [pool(), split()], ids=["pool", "split"])
def test_a_config_map_in_the_same_file_describes_the_model(tmp_path: Path, body: dict[str, Any]) -> None:
    named = {**body, "spec": {**body["spec"], "model": NAMED}}
    ending = weft("plan", "-f", written(tmp_path / "all.yaml", named, config_map()))
    assert ending.code == 0, ending.out + ending.err
    assert "Planned True" in ending.out


def test_a_config_map_that_is_nowhere_is_asked_for_in_one_sentence(tmp_path: Path) -> None:
    """One of another namespace is another one."""
    named = {**pool(), "spec": {**pool()["spec"], "model": NAMED}}
    ending = weft("plan", "-f", written(tmp_path / "all.yaml", named, config_map(namespace="other")))
    assert ending.code == 2
    assert "ConfigMap secret of namespace default" in ending.sentence
    assert "--context" in ending.sentence


@pytest.mark.parametrize(
    ("wires", "said", "name"),
    [
        ({}, "KV over TCP, 1.4 GB/s of each prefill GPU", "TCP"),
        ({"kvTransfer": {"transport": "RDMA"}, "engine": {"resources": DEVICES}}, "KV over RDMA, ", "RDMA"),
    ],
)
def test_a_split_says_what_carries_its_kv(tmp_path: Path, wires: dict[str, object], said: str, name: str) -> None:
    body = split()
    body["spec"] |= wires
    file = written(tmp_path / "split.yaml", body)
    page, (data,) = weft("plan", "-f", file).out, json.loads(weft("plan", "-f", file, "-o", "json").out)
    assert said in page
    assert ("engine.resources.rdma" in page) == (name == "TCP")
    assert data["transport"]["name"] == name
    assert (data["transport"]["bytesPerSecond"] < 2e9) == (name == "TCP")


def test_a_split_shows_both_sides_and_no_tpot_for_prefill(tmp_path: Path) -> None:
    ending = weft("plan", "-f", written(tmp_path / "split.yaml", split()))
    prefill, _, decode = ending.out.partition("Decode pool reasoner-decode")
    assert "Prefill pool reasoner-prefill" in prefill
    assert "TPOT" not in prefill
    assert "TTFT" in decode
    assert "TPOT" in decode


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"])
def test_programs_get_the_same_answer_as_data(tmp_path: Path, form: str, read: object) -> None:
    ending = weft("plan", "-f", written(tmp_path / "split.yaml", split(), pool()), "-o", form)
    assert callable(read)
    chat, reasoner = read(ending.out)
    assert "InferencePool/chat" == chat["resource"]
    assert ["Prefill", "Decode"] == [side["role"] for side in reasoner["pools"]]
    plan = chat["pools"][0]["plan"]
    assert plan["gpusPerReplica"] >= 1
    assert plan["alternatives"]
    assert {"Planned", "Placed"} <= {one["type"] for one in chat["pools"][0]["conditions"]}


def test_the_same_question_gets_the_same_answer() -> None:
    file = str(ROOT / "examples" / "deepseek-split.yaml")
    one, other = (shell("plan", "-f", file, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert (one.code, one.out) == (other.code, other.out)


def test_an_imagined_world_has_every_accelerator_as_a_real_cluster_would_show_it() -> None:
    """Nothing in it is labelled in a way that nobody reads; Gaudi has no discovery, so an administrator's label."""
    catalog = load()
    fabric = build_fabric(imagined_world(catalog).nodes, (), catalog)
    assert () == fabric.notes
    assert {each.name for each in catalog.accelerators} - {"cpu"} == {each.accelerator for each in fabric.domains}
    (gaudi, *_) = (each for each in fabric.nodes().values() if each.accelerator == "Gaudi3")
    assert (("weft.dev/accelerator", "Gaudi3"),) == gaudi.labels


def test_an_accelerator_that_no_engine_serves_is_refused_by_its_name() -> None:
    """No cluster would change it, so it is a wrong input."""
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump(pool(placement={"accelerators": ["Gaudi3"]})))
    assert (2, "") == (ending.code, ending.out)
    told = "EngineUnsupported: VLLM does not run on Gaudi3; allowed: another accelerator"
    assert told in ending.sentence


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--accelerator", "H100"), 2),
        (("--accelerator", "h100", "--fabric"), 2),
        (("--accelerator", "H100", "--accelerator", "B200", "--fabric"), 1),
        (("--fabric",), 1),
    ],
    ids=["imagined", "all there", "one is not there", "any"],
)
def test_a_precision_that_is_not_served_is_a_wrong_input_where_no_cluster_would_help(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    """H100s do not serve NVFP4, B200s would: then the answer is only no. Either way it is what was asked for."""
    nodes = written(tmp_path / "nodes.yaml", node("one", product="NVIDIA-H100-80GB-HBM3"))
    given = (*options, nodes) if "--fabric" in options else options
    ending = weft("plan", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--precision", "NVFP4", *given)
    told = "PrecisionUnsupported: the precision asked for: VLLM does not serve NVFP4 on H100"
    assert code == ending.code
    assert told in (ending.sentence if code == 2 else " ".join(ending.out.split()))


def test_answers_of_one_token_show_no_tpot() -> None:
    """None comes after the first: not as a figure, not as a column, and not as a wish."""
    ending = weft(
        "plan", "--model", "Llama-3.1-8B-Instruct", "--osl", "1", "--tpot", "p95=1ms", "--accelerator", "H200"
    )
    assert 0 == ending.code
    assert "ShapeChosen" in ending.out
    assert "TPOT" not in ending.out


def test_standard_input_is_a_file_too() -> None:
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump(pool()))
    assert ending.code == 0
    assert "InferencePool/chat" in ending.out


def test_other_objects_in_the_file_are_left_alone(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    assert weft("plan", "-f", written(tmp_path / "all.yaml", secret, pool())).code == 0


def test_a_pipe_gets_no_padding_and_no_colours(tmp_path: Path) -> None:
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool()))
    assert [line.rstrip() for line in ending.out.splitlines()] == ending.out.splitlines()
    assert "\x1b" not in ending.out


@pytest.mark.parametrize(
    ("product", "model", "shape"),
    [
        ("NVIDIA-A100-80GB-PCIe", "meta-llama/Llama-3.1-8B-Instruct", "A100-PCIe BF16 TP1"),
        ("NVIDIA-A100-80GB-PCIe", "meta-llama/Llama-3.1-70B-Instruct", "A100-PCIe BF16 TP4"),
        ("NVIDIA-A100-PCIE-40GB", "meta-llama/Llama-3.1-8B-Instruct", "A100-PCIe-40GB BF16 TP1"),
        ("NVIDIA-A100-PCIE-40GB", "meta-llama/Llama-3.1-70B-Instruct", "A100-PCIe-40GB BF16 TP8"),
        ("NVIDIA-A10G", "meta-llama/Llama-3.1-8B-Instruct", "A10G BF16 TP"),
    ],
)
def test_a_fleet_of_pcie_cards_is_planned_in_groups_of_a_node(
    tmp_path: Path, product: str, model: str, shape: str
) -> None:
    nodes = written(tmp_path / "nodes.yaml", listed(*(node(f"pcie-{place}", product) for place in range(4))))
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool(model=model)), "--fabric", nodes, "-o", "json")
    assert ending.code == 0, ending.err
    (planned,) = json.loads(ending.out)
    assert planned["pools"][0]["plan"]["shape"].startswith(shape)


def test_a_card_without_bf16_is_refused_by_its_name(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", listed(node("old-0", "Tesla-T4")))
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool()), "--fabric", nodes)
    assert (2, "") == (ending.code, ending.out)
    assert "node old-0 has 'Tesla-T4', which the catalog does not know: it is not used" in ending.sentence


@pytest.mark.parametrize(("nodes", "advised"), [(1, False), (2, True)])
def test_stages_apart_are_advised_where_there_is_a_second_domain(tmp_path: Path, nodes: int, *, advised: bool) -> None:
    fabric = written(tmp_path / "nodes.yaml", listed(*(node(f"board-{place}", gpus=1) for place in range(nodes))))
    ending = weft("plan", "-f", written(tmp_path / "pool.yaml", pool(model=LARGE)), "--fabric", fabric)
    assert (1, []) == (ending.code, ending.complaints)
    assert "ModelDoesNotFit" in ending.out
    assert ("spec.placement.domain Preferred" in " ".join(ending.out.split())) == advised
