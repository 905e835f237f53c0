"""What turns a node into a GPU node for engines: devices, labels, images, and the folders that images would carry.

Weft renders no hostPath, and needs none here: the cluster's own admission policy mounts the engine environment into
every container whose image is named `.../vllm/...`. A namespace that enforces Pod Security `baseline` or stricter
refuses such pods, because admission sees the mounts.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes import client, utils

from e2e.cluster.images import ImageDefaults, engine_image, patient_poll, program_image
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from e2e.cluster.engine_environment import EngineEnvironment

GPU = "nvidia.com/gpu"
TEST_GPU_LABELS: Mapping[str, str] = {
    "nvidia.com/gpu.product": "CPU-TEST",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "4096",
}
ONLY_HERE = "registry.invalid/vllm/engine:1"  # an engine that no registry has, for nodes that lack it
SIDECAR = "docker.io/vllm/pd-sidecar:e2e"
POLICY = "engine-folders"
_CUSTOMIZATION = Path(__file__).with_name("sitecustomize_of_engines.py")
_MATCH = "c.image.contains('vllm/')"


def write_images(folder: Path, environment: EngineEnvironment) -> list[Path]:
    """Engine and router images under the names that registries give them, with the variables their layers would set."""
    variables = container_environment(environment)
    of_engines = engine_variables(environment, _preloaded(folder))
    vllm, router = environment.versions["vllm"], environment.versions["vllm-router"]
    engine_tags = [f"docker.io/vllm/{name}:v{vllm}" for name in ("vllm-openai", "vllm-openai-cpu")]
    engine_tags.append(ONLY_HERE)
    return [
        engine_image(folder / "engine.tar", engine_tags, ImageDefaults(("vllm", "serve"), of_engines)),
        engine_image(folder / "router.tar", [f"docker.io/vllm/vllm-router:v{router}"], ImageDefaults((), variables)),
        sidecar_image(folder / "sidecar.tar", variables),
    ]


def sidecar_image(path: Path, variables: Mapping[str, str]) -> Path:
    """What plays llm-d's sidecar; `WEFT_E2E_SIDECAR` names the real one's binary, where somebody has built it."""
    program = Path(os.environ.get("WEFT_E2E_SIDECAR") or Path(__file__).with_name("sidecar.py"))
    return program_image(path, program, [SIDECAR], variables)


def container_environment(environment: EngineEnvironment) -> dict[str, str]:
    """One thread per engine, tied to no core: with two cores, vLLM's own binding puts every engine on the first."""
    return {
        "PATH": f"{environment.venv}/bin:/usr/local/bin:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CACHE_ROOT": str(environment.model_information),
    }


def engine_variables(environment: EngineEnvironment, folder: Path) -> dict[str, str]:
    """Those of an engine's image; what makes it spare the processor is written to the folder. Needs gcc.

    An engine runs in two processes as on one GPU, without the one in which vLLM puts the model on the CPU alone for
    the sake of threads that are tied to cores. Ranks of several pods have their processes all the same.
    """
    patience = patient_poll(folder)
    shutil.copy(_CUSTOMIZATION, folder / "sitecustomize.py")
    return {
        **container_environment(environment),
        "LD_PRELOAD": str(patience),
        "PYTHONPATH": str(folder),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }


def _preloaded(images: Path) -> Path:
    return images / "preloaded"


def mount_folders(api: client.ApiClient, environment: EngineEnvironment, images: Path) -> None:
    """Install the policy, and return once the API server applies it. `images` is where they were written."""
    folders = {
        "engine-usr": "/usr",
        "engine-python": str(environment.python_home),
        "engine-venv": str(environment.venv),
        "engine-cache": str(environment.model_information),
        "engine-preloaded": str(_preloaded(images)),
    }
    for document in (_policy(folders), _binding()):
        utils.create_from_dict(api, document)
    probe: Any = _probe(f"docker.io/vllm/vllm-openai:v{environment.versions['vllm']}")
    core = client.CoreV1Api(api)

    def mounted() -> bool:
        pod: Any = core.create_namespaced_pod("default", probe, dry_run="All")
        return "engine-usr" in {volume.name for volume in pod.spec.volumes or ()}

    eventually(mounted, "the admission policy mounts engine folders", timeout_seconds=60, interval_seconds=0.2)


def offer_gpus(api: client.ApiClient, node: str, count: int) -> None:
    """Give the node GPUs, as far as the scheduler and the kubelet are concerned."""
    path = GPU.replace("/", "~1")
    kinds = ("capacity", "allocatable")
    patch = [{"op": "add", "path": f"/status/{kind}/{path}", "value": str(count)} for kind in kinds]
    client.CoreV1Api(api).patch_node_status(node, patch)


def offer_model(api: client.ApiClient, model: Path, namespace: str, claim: str) -> None:
    """Create a claim in a namespace, bound to a read-only volume that holds the folder of a model."""
    volume_name = f"{namespace}-{claim}"
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": str(model), "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    request = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {**common, "volumeName": volume_name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    for document in (volume, request):
        utils.create_from_dict(api, document)
    core = client.CoreV1Api(api)

    def bound() -> bool:
        found: Any = core.read_namespaced_persistent_volume_claim(claim, namespace)
        return bool(found.status.phase == "Bound")

    eventually(bound, f"claim {namespace}/{claim} is bound")


def _policy(folders: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "matchConditions": [{"name": "engine-image", "expression": f"object.spec.containers.exists(c, {_MATCH})"}],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _expression(folders)}}
            ],
        },
    }


def _binding() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY},
    }


def _expression(folders: Mapping[str, str]) -> str:
    """Volumes and mounts are maps in the API's eyes, by name and by path: what the pod has already is kept."""
    volumes = ", ".join(
        f"Object.spec.volumes{{name: '{name}', hostPath: Object.spec.volumes.hostPath{{path: '{path}'}}}}"
        for name, path in folders.items()
    )
    init_containers = _mounting("initContainers", folders)
    containers = _mounting("containers", folders)
    return f"""Object{{spec: Object.spec{{
        volumes: [{volumes}],
        containers: object.spec.containers.filter(c, {_MATCH}).map(c, {containers}),
        initContainers: has(object.spec.initContainers)
            ? object.spec.initContainers.filter(c, {_MATCH}).map(c, {init_containers}) : []
    }}}}"""


def _mounting(kind: str, folders: Mapping[str, str]) -> str:
    mounts = ", ".join(
        f"Object.spec.{kind}.volumeMounts{{name: '{name}', mountPath: '{path}', readOnly: true}}"
        for name, path in folders.items()
    )
    return f"Object.spec.{kind}{{name: c.name, volumeMounts: [{mounts}]}}"


def _probe(image: str) -> dict[str, Any]:
    return {"metadata": {"name": "engine-folders-probe"}, "spec": {"containers": [{"name": "probe", "image": image}]}}
