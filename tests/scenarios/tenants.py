"""What others do in a place: pods that hold GPUs without being Weft's, and whole resources as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes import client

from e2e.cluster.waiting import eventually
from tests.installed import GROUP, PLACE_LABEL, VERSION
from tests.manifests import install
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.installed import Place

Json = dict[str, Any]
USERS_OWN = ("api/v1/secrets", "api/v1/configmaps", "api/v1/persistentvolumeclaims", "api/v1/serviceaccounts")
A_VOLUME = {"pvc": {"claimName": "models", "path": "llama"}}  # where a model lies, and the Secret that opens a hub
STRANGER, NOBODY = "stranger", "00000000-0000-0000-0000-000000000000"
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


def a_pod_with_our_labels(place: Place, node: str, pool: str = "chat", replica: int = 7) -> None:
    """It says that it is ours and is not: no owner reference stands behind the labels."""
    tags = {
        labels.MANAGED_BY: labels.MANAGED_BY_WEFT,
        labels.POOL: pool,
        labels.POOL_UID: NOBODY,
        labels.REPLICA: str(replica),
        labels.RANK: "0",
        labels.ROUTED: "true",
    }
    hold_gpus(place, STRANGER, node, 1, tags)


def name_its_pool(place: Place) -> Json:
    """Let the stranger's labels name the UID of the pool too, and give it as it is from then on: it runs."""
    name = the_stranger(place)["metadata"]["labels"][labels.POOL]
    eventually(lambda: name in _pools(place), f"{name} is there")
    uid = _pools(place)[name]
    with place.weft.cluster.api_client() as api:
        patch = {"metadata": {"labels": {labels.POOL_UID: uid}}}
        client.CoreV1Api(api).patch_namespaced_pod(STRANGER, place.namespace, patch)
    eventually(lambda: _is_ready(the_stranger(place)), "the stranger runs")
    return the_stranger(place)


def _pools(place: Place) -> dict[str, str]:
    """Their UIDs by name."""
    pools = (body["metadata"] for body in place.objects(f"apis/{GROUP}/{VERSION}/inferencepools"))
    return {meta["name"]: meta["uid"] for meta in pools}


def the_stranger(place: Place) -> Json:
    """The pod that wears our labels, with all that anybody wrote to it: version, labels, spec and status."""
    (found,) = (pod for pod in place.pods() if pod["metadata"]["name"] == STRANGER)
    return found


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


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
    """What a pool reads and a user owns, once the control plane has written to it what it will."""
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
    eventually(lambda: _is_settled(place), "the claim is bound, and the account and its certificates are there")


def _is_settled(place: Place) -> bool:
    bound = [body["status"].get("phase") == "Bound" for body in place.objects("api/v1/persistentvolumeclaims")]
    return all(bound) and {"serviceaccounts/default", "configmaps/kube-root-ca.crt"} <= users_objects(place).keys()


def users_objects(place: Place) -> dict[str, tuple[str, str]]:
    """UID and version of everything that users and administrators made, by plural and name: any write shows."""
    return {
        f"{path.rpartition('/')[2]}/{meta['name']}": (meta["uid"], meta["resourceVersion"])
        for path in USERS_OWN
        for meta in (body["metadata"] for body in place.objects(path))
    }
