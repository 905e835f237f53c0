"""What a replica's pods look like: one golden file a shape, and what holds for all of them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.render.nim_shapes import NIM_SHAPES, NIM_VLLM, in_a_nim
from tests.render.pools import RELEASE, RELEASES, plan, pool, shape, spec
from tests.render.restricted import violations
from tests.render.shapes import SHAPES
from weft.domain import labels
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ModelSource, ModelSpec, PodSpec, RolloutSpec, RouterSpec, SourceKind
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.engines.vllm.ray import HEAD, WORKER
from weft.render import FrontSpec, pool_labels, render_front, render_pods, render_ranks_service, render_service

if TYPE_CHECKING:
    from weft.domain.shape import EngineRelease
    from weft.domain.spec import PoolSpec

GOLDEN = Path(__file__).parent / "golden"
# What begins the command of each engine's containers: a program with its arguments, never a shell
PROGRAMS = {
    EngineName.VLLM: ["vllm", "serve"],
    EngineName.SGLang: ["python3", "-m", "sglang.launch_server"],
    EngineName.TensorRTLLM: ["trtllm-serve", "serve"],
}
# On Ray, a fixed text of Python's that every pool gets alike; what users write comes behind it, as arguments.
ON_RAY = (["python3", "-c", HEAD, "vllm", "serve"], ["python3", "-c", WORKER])
OF_RAY = [name for name, record in SHAPES.items() if record.spec and record.spec.engine.distributed == "Ray"]
# Over pods of TensorRT-LLM, a file of ours that is the same in every pool; what users write is argument to it, too.
IN_A_WORLD = (["python3", "/etc/engine/mpi_world.py", "lead"], ["python3", "/etc/engine/mpi_world.py", "join"])
OF_A_WORLD = [
    name
    for name, record in SHAPES.items()
    if record.status.plan
    and record.status.plan.engine.name is EngineName.TensorRTLLM
    and record.status.assignments[0].pods > 1
]
_AS_ROOT = ["runAsNonRoot", "runAsUser"]
PODS = [(name, rank) for name, record in SHAPES.items() for rank in range(record.status.assignments[0].pods)]


def rendered(name: str) -> tuple[dict[str, Any], ...]:
    record = SHAPES[name]
    return render_pods(record, record.status.assignments[0])


@pytest.mark.parametrize("name", SHAPES)
def test_pods_are_as_recorded(name: str) -> None:
    """A change of rendering shows up in review. `WEFT_GOLDEN=write` records it."""
    path = GOLDEN / f"{name}.yaml"
    actual = yaml.safe_dump_all(rendered(name), sort_keys=False, width=120)
    if os.environ.get("WEFT_GOLDEN") == "write":
        path.write_text(actual)
    assert path.read_text() == actual


@pytest.mark.parametrize(("name", "rank"), PODS)
def test_every_pod_passes_pod_security_restricted(name: str, rank: int) -> None:
    """But for what somebody asked for by name."""
    relaxed = {"prefill-rdma-relaxed": [*_AS_ROOT, "capabilities.add"]}
    assert violations(rendered(name)[rank]["spec"]) == relaxed.get(name, [])


@pytest.mark.parametrize(("name", "rank"), PODS)
def test_no_pod_is_restarted_in_place_or_starts_before_it_is_released(name: str, rank: int) -> None:
    pod = rendered(name)[rank]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["schedulingGates"][0] == {"name": labels.GATE}
    assert "nodeName" not in pod
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize(("name", "rank"), PODS)
def test_no_user_text_reaches_a_shell(name: str, rank: int) -> None:
    container = rendered(name)[rank]["spec"]["containers"][0]
    plan = SHAPES[name].status.plan
    assert plan is not None
    if name in NIM_SHAPES:  # the image's own entry point, which is NVIDIA's
        assert "command" not in container
        assert container["args"][0] == "nim-serve"
        return
    program = PROGRAMS[plan.engine.name]
    for forms, names in ((ON_RAY, OF_RAY), (IN_A_WORLD, OF_A_WORLD)):
        program = forms[rank] if name in names else program
    assert container["command"][: len(program)] == program
    assert "args" not in container


def test_the_grace_period_covers_unrouting_and_the_engines_own_drain() -> None:
    pod = render_one(spec(rollout=RolloutSpec(drain_timeout_seconds=120)))
    container = pod["containers"][0]
    assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 5}}
    assert after(container["command"], "--shutdown-timeout") == "120"
    assert pod["terminationGracePeriodSeconds"] >= 5 + 120 + 5


def test_a_decode_pod_of_vllm_takes_requests_whose_prompt_was_still_computed_when_it_was_told_to_go() -> None:
    """The router chooses both halves before prefill begins, and vLLM refuses what comes after SIGTERM."""
    pod = render_one(spec(role=Role.Decode, rollout=RolloutSpec(drain_timeout_seconds=120)))
    container = pod["containers"][0]
    assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 30}}
    assert after(container["command"], "--shutdown-timeout") == "120"
    assert pod["terminationGracePeriodSeconds"] >= 30 + 120 + 5


def test_an_engine_that_cannot_drain_keeps_serving_for_the_drain_time() -> None:
    """Before 0.18.1 SIGTERM aborts requests, so the preStop sleep is the drain."""
    old = replace(plan().engine, version="0.17.1")
    container = render_one(spec(rollout=RolloutSpec(drain_timeout_seconds=120)), release=old)["containers"][0]
    assert "--shutdown-timeout" not in container["command"]
    assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 125}}


def test_only_the_first_pod_is_routed_and_probed() -> None:
    leader, worker = rendered("two-pods-tp16")
    assert leader["metadata"]["labels"][labels.ROUTED] == "true"
    assert labels.ROUTED not in worker["metadata"]["labels"]
    assert "readinessProbe" in leader["spec"]["containers"][0]
    assert "readinessProbe" not in worker["spec"]["containers"][0]


@pytest.mark.parametrize("name", SHAPES)
def test_a_service_finds_its_engine_whatever_port_that_listens_on(name: str) -> None:
    """Ports are looked up by name on each pod, so that engines may change under one Service."""
    (port,) = render_service(SHAPES[name])["spec"]["ports"]
    offered = rendered(name)[0]["spec"]["containers"][0]["ports"]
    assert [each["containerPort"] for each in offered if each["name"] == port["targetPort"]] in ([8000], [30000])


def test_users_labels_never_replace_ours() -> None:
    record = pool(spec(pod=PodSpec(labels=((labels.REPLICA, "99"), ("team", "llm")))), plan(), ("node-a",))
    tags = render_pods(record, record.status.assignments[0])[0]["metadata"]["labels"]
    assert tags[labels.REPLICA] == "3"
    assert tags["team"] == "llm"


def test_an_image_volume_carries_the_weights() -> None:
    source = ModelSource(SourceKind.Image, "models/llama:1", "weights", pull_policy="IfNotPresent")
    pod = render_one(spec(model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source)))
    assert {"name": "model", "image": {"reference": "models/llama:1", "pullPolicy": "IfNotPresent"}} in pod["volumes"]
    assert pod["containers"][0]["command"][:3] == ["vllm", "serve", "/model/weights"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in pod["containers"][0]["env"]


@pytest.mark.parametrize("engine", EngineName)
def test_what_one_replica_downloads_the_others_find(engine: EngineName) -> None:
    """The claim is mounted to be written to, and the hub's client told of it, whichever engine asks it."""
    source = ModelSource(SourceKind.HuggingFace, "meta-llama/Llama-3.1-8B-Instruct", cache="downloads")
    wanted = spec(model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source))
    record = pool(wanted, plan(shape(engine=engine)), ("node-a",))
    pod = render_pods(record, record.status.assignments[0])[0]["spec"]
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "downloads"}} in pod["volumes"]
    container = pod["containers"][0]
    assert {"name": "model", "mountPath": "/model-cache"} in container["volumeMounts"]
    assert {"name": "HF_HUB_CACHE", "value": "/model-cache"} in container["env"]
    assert "meta-llama/Llama-3.1-8B-Instruct" in container["command"]
    assert violations(pod) == []


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("claim", [None, "downloads"])
def test_weights_are_downloaded_before_the_engine_runs(engine: EngineName, claim: str | None) -> None:
    """In the engine's image and with its environment, to where it looks for them; and with what the pod asks anyway."""
    token = ("hub", "key")
    source = ModelSource(SourceKind.HuggingFace, "a/b", revision="main", token_secret=token, cache=claim, warm_up=True)
    model, mib = ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source), (("cpu", "8"), ("memory", "64Gi"))
    wanted = spec(model=model, engine=EngineSpec(resources=(*mib, ("rdma/hca", "1"))))
    record = pool(wanted, plan(shape(engine=engine)), ("node-a",))
    pod = render_pods(record, record.status.assignments[0])[0]["spec"]
    ((first,), (container,)) = pod["initContainers"], pod["containers"]
    assert first["command"][0] == "python3"
    assert first["command"][3:] == ["a/b", str(adapter_for(engine).port), "main"]
    assert (first["image"], first["env"]) == (container["image"], container["env"])
    assert {"name": "HF_HUB_CACHE", "value": "/model-cache"} in first["env"]
    mounted = {"name": "model", "mountPath": "/model-cache"}
    assert mounted in first["volumeMounts"]
    assert mounted in container["volumeMounts"]
    volume = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    assert {"name": "model", **volume} in pod["volumes"]
    assert first["resources"] == {"requests": dict(mib), "limits": {"memory": "64Gi"}}
    assert "lifecycle" not in first  # the API server refuses it
    assert violations(pod) == []


def test_who_downloads_for_root_is_root_and_no_more_than_that() -> None:
    """The engine writes beside what was downloaded, and root without capabilities may not where another user wrote."""
    asked = ("RunAsRoot", "IPCLock")
    source = ModelSource(SourceKind.HuggingFace, "a/b", warm_up=True)
    pod = render_one(
        spec(
            model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source),
            engine=EngineSpec(resources=(("rdma/hca", "1"),)),
            pod=PodSpec(relaxations=asked, permitted=asked),
        )
    )
    assert violations({**pod, "containers": pod["initContainers"], "initContainers": []}) == _AS_ROOT
    assert violations({**pod, "initContainers": []}) == [*_AS_ROOT, "capabilities.add"]


def test_huge_pages_of_both_sizes_are_mounted_where_the_engine_runs_and_nowhere_else() -> None:
    """Requests and limits are the same, and each size has a volume of its own; who downloads weights has none."""
    amounts = {"memory": "8Gi", "hugepages-2Mi": "1024Mi", "hugepages-1Gi": "4Gi"}
    source = ModelSource(SourceKind.HuggingFace, "a/b", warm_up=True)
    model = ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source)
    pod = render_one(spec(model=model, engine=EngineSpec(resources=tuple(amounts.items()))))
    (container,), (first,) = pod["containers"], pod["initContainers"]
    assert container["resources"] == {kind: {**amounts, "nvidia.com/gpu": "1"} for kind in ("requests", "limits")}
    for size, path in (("2Mi", "/dev/hugepages"), ("1Gi", "/dev/hugepages-1Gi")):
        name = f"hugepages-{size.lower()}"
        assert {"name": name, "emptyDir": {"medium": f"HugePages-{size}"}} in pod["volumes"]
        assert {"name": name, "mountPath": path} in container["volumeMounts"]
    assert not any(each["name"].startswith("hugepages") for each in first["volumeMounts"])
    assert first["resources"]["requests"] == {"memory": "8Gi"}


def test_an_object_store_is_streamed_with_its_credentials() -> None:
    source = ModelSource(SourceKind.URI, "s3://bucket/llama", secret="store")
    container = render_one(spec(model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source)))["containers"][0]
    assert container["command"][2] == "s3://bucket/llama"
    assert after(container["command"], "--load-format") == "runai_streamer"
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}]


def test_users_variables_win_over_ours_and_appear_once() -> None:
    container = render_one(spec(engine=EngineSpec(env=(("HOME", "/data"), ("VLLM_NO_USAGE_STATS", "0")))))[
        "containers"
    ][0]
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert {"name": "HOME", "value": "/data"} in container["env"]
    assert {"name": "VLLM_NO_USAGE_STATS", "value": "0"} in container["env"]


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
@pytest.mark.parametrize(("limit", "failures"), [(None, 132), (7200.0, 1441), (2.0, 2)], ids=["usual", "2h", "2s"])
def test_an_engine_has_as_long_to_start_as_the_user_says(
    release: EngineRelease, limit: float | None, failures: int
) -> None:
    """Unless they do, ten minutes and 16 GB at 250 MB/s, asked at once and then every 5 s."""
    wanted = spec(rollout=RolloutSpec(start_timeout_seconds=limit))
    record = pool(wanted, plan(shape(engine=release.name), release), ("node-a",))
    container = render_pods(record, record.status.assignments[0])[0]["spec"]["containers"][0]
    probe = container["startupProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (5, failures)
    assert limit is None or (failures - 1) * 5 >= limit
    assert probe["terminationGracePeriodSeconds"] == 5  # it has no requests to finish
    own = {each["name"]: each.get("value") for each in container["env"]}.get("VLLM_ENGINE_READY_TIMEOUT_S")
    if release.name is EngineName.VLLM:
        assert own is not None
        assert failures * 5 <= int(own) < (failures + 1) * 5  # nor does it give up by itself before that


@pytest.mark.parametrize("value", ["$(HOME)", "pa$$word", "$$(HOME)", "costs $5$", "$"])
def test_a_users_variable_means_what_is_written(value: str) -> None:
    """Kubernetes replaces `$(NAME)` by another variable, and `$$` by one dollar."""
    container = render_one(spec(engine=EngineSpec(env=(("WORD", value),))))["containers"][0]
    given = next(variable["value"] for variable in container["env"] if variable["name"] == "WORD")
    assert expanded(given) == value


@pytest.mark.parametrize("release", [*RELEASES.values(), NIM_VLLM], ids=lambda release: release.image)
def test_a_users_argument_means_what_is_written(release: EngineRelease) -> None:
    """Weft reads arguments for the plan, so that the engine must get what was read."""
    said = ("--chat-template=$(HOME)", "pa$$word")
    engine = EngineSpec(release.name, release.version, release.image, said)
    wanted = in_a_nim(release, engine) if release is NIM_VLLM else spec(engine=engine)
    record = pool(wanted, plan(shape(engine=release.name), release), ("node-a",))
    container = render_pods(record, record.status.assignments[0])[0]["spec"]["containers"][0]
    words = [expanded(each) for each in (*container.get("command", ()), *container.get("args", ()))]
    assert set(said) <= set(words)


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.image)
def test_a_models_names_and_places_mean_what_is_written(release: EngineRelease) -> None:
    """A name made of a variable of the pod would tell the variable, which may be a key, to all who list models."""
    served, revision, adapter, draft = "my-$(HF_TOKEN)", "v$$1", "team/lora-$(HOME)", "team/eagle-$$(HOME)"
    is_bare = release.name is EngineName.TensorRTLLM  # its adapters are refused; the rest is in its file, as it stands
    source = ModelSource(SourceKind.HuggingFace, "team/$(HOME)", revision=revision, warm_up=True)
    adapters = () if is_bare else (("law", adapter),)
    model = ModelSpec("meta-llama/Llama-3.1-8B-Instruct", () if is_bare else (served,), source, adapters=adapters)
    drafting = EngineSpec(speculative_json=f'{{"method":"EAGLE3","model":"{draft}","tokens":3}}')
    record = pool(spec(model=model, engine=drafting), plan(shape(engine=release.name), release), ("node-a",))
    pod = render_pods(record, record.status.assignments[0])[0]["spec"]
    weights, engine = (list(map(expanded, pod[kind][0]["command"])) for kind in ("initContainers", "containers"))
    assert weights[-3::2] == [source.location, revision]
    assert source.location in engine
    assert all(each in " ".join(engine) for each in (() if is_bare else (served, revision, adapter, draft)))


def expanded(text: str) -> str:
    """What Kubernetes makes of a text in a container."""
    return re.sub(r"\$\((\w+)\)|\$\$", lambda found: "$" if found[1] is None else "replaced", text)


def test_the_names_of_ranks_are_of_engines_alone() -> None:
    """Routers of the pool carry its UID, too."""
    record = SHAPES["two-pods-tp16"]
    chosen = render_ranks_service(record)["spec"]["selector"].items()
    front = render_front(
        record.key, EngineName.VLLM, RouterSpec(), FrontSpec((record.key,), 1, 300.0), pool_labels(record)
    )
    assert chosen <= render_pods(record, record.status.assignments[0])[1]["metadata"]["labels"].items()
    assert not chosen <= front["spec"]["template"]["metadata"]["labels"].items()


def render_one(wanted: PoolSpec, release: EngineRelease = RELEASE) -> dict[str, Any]:
    record = pool(wanted, plan(shape(), release), ("node-a",))
    found: dict[str, Any] = render_pods(record, record.status.assignments[0])[0]["spec"]
    return found


def after(command: list[str], flag: str) -> str:
    return command[command.index(flag) + 1]
