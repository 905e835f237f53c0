"""What others do in a place: pods that hold GPUs without being Weft's, and whole resources as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes import client

from tests.installed import GROUP, PLACE_LABEL, VERSION
from tests.manifests import install

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.installed import Place

Json = dict[str, Any]
USERS_OWN = ("api/v1/secrets", "api/v1/configmaps", "api/v1/persistentvolumeclaims", "api/v1/serviceaccounts")
A_VOLUME = {"pvc": {"claimName": "models", "path": "llama"}}  # where a model lies, and the Secret that opens a hub
A_HUB = {"huggingFace": {"tokenSecretRef": {"name": "hugging-face", "key": "token"}}}


def hold_gpus(place: Place, name: str, node: str, gpus: int, labels: Mapping[str, str] | None = None) -> Json:
    """A pod of somebody else on a node; gives it as created."""
    body: Any = {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {"name": "job", "image": "job", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}},
            ],
            "terminationGracePeriodSeconds": 0,
        },
    }
    with place.weft.cluster.api_client() as api:
        made: Json = api.sanitize_for_serialization(client.CoreV1Api(api).create_namespaced_pod(place.namespace, body))
    return made


def is_bound(place: Place, name: str) -> bool:
    """Whether the scheduler gave a pod its node."""
    return any(pod["metadata"]["name"] == name and pod["spec"].get("nodeName") for pod in place.pods())


def engines(place: Place, pool: str) -> list[Json]:
    """Engine pods of a pool."""
    return place.objects("api/v1/pods", f"weft.dev/pool={pool}")


def message(place: Place, pool: str, kind: str) -> str:
    """What a condition of a pool says, empty while it is absent."""
    conditions = place.status(pool).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each["type"] == kind), "")


def on_board(place: Place, gpus: int) -> Json:
    """Fields of a pool whose replicas are tensor-parallel over that many H200."""
    return {
        "model": {"id": "meta-llama/Llama-3.3-70B-Instruct"},
        "shape": {"tensorParallel": gpus},
        "placement": {"accelerators": ["H200"], "nodeSelector": {PLACE_LABEL: place.namespace}},
    }


def create_split(place: Place, name: str, spec: Json) -> None:
    """A PDSplit on the nodes of a place."""
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PDSplit",
        "metadata": {"name": name},
        "spec": {"placement": {"nodeSelector": {PLACE_LABEL: place.namespace}}, **spec},
    }
    with place.weft.cluster.api_client() as api:
        client.CustomObjectsApi(api).create_namespaced_custom_object(GROUP, VERSION, place.namespace, "pdsplits", body)


def split_condition(place: Place, name: str, kind: str) -> tuple[str, str]:
    """Status and reason of one condition of a split; empty words while it is absent."""
    found = next(each for each in place.objects("apis/weft.dev/v1alpha1/pdsplits") if each["metadata"]["name"] == name)
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), ("", ""))


def delete_split(place: Place, name: str) -> None:
    """Delete a split as a user does."""
    with place.weft.cluster.api_client() as api:
        client.CustomObjectsApi(api).delete_namespaced_custom_object(GROUP, VERSION, place.namespace, "pdsplits", name)


def change_split(place: Place, name: str, patch: Json) -> None:
    """Merge a patch into a split."""
    with place.weft.cluster.api_client() as api:
        client.CustomObjectsApi(api).patch_namespaced_custom_object(
            GROUP,
            VERSION,
            place.namespace,
            "pdsplits",
            name,
            patch,
            _content_type="application/merge-patch+json",
        )


def make_users_objects(place: Place) -> None:
    """What a pool reads and a user owns."""
    volume_name, modes, size = f"{place.namespace}-models", ["ReadOnlyMany"], {"storage": "1Gi"}
    volume = {"accessModes": modes, "capacity": size, "hostPath": {"path": "/models"}}
    claim = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": volume_name}
    objects: list[Json] = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hugging-face"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "configuration"}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume_name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": claim},
    ]
    with place.weft.cluster.api_client() as api:
        install(api, objects, place.namespace)


def users_objects(place: Place) -> set[str]:
    """UIDs of everything that users and administrators made."""
    return {body["metadata"]["uid"] for path in USERS_OWN for body in place.objects(path)}
