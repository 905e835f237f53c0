"""NVIDIA's driver for ComputeDomains (v0.4.1) as the API server sees it: nothing of it runs but its writes.

It offers channels, makes templates, holds what goes away by a finalizer, and labels the nodes of pods with a claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from e2e.cluster.presets import nvl72_rack
from tests.installed import PLACE_LABEL
from tests.manifests import install
from weft.domain.labels import COMPUTE_DOMAIN

if TYPE_CHECKING:
    from tests.installed import InstalledWeft, Place

Json = dict[str, Any]
GROUP, VERSION, PLURAL = "resource.nvidia.com", "v1beta1", "computedomains"
DRIVER, CHANNEL = "compute-domain.nvidia.com", "compute-domain-default-channel.nvidia.com"
CLAIMS, TEMPLATES = "apis/resource.k8s.io/v1/resourceclaims", "apis/resource.k8s.io/v1/resourceclaimtemplates"
TRAY_GPUS = 4
NOT_FOUND = 404


class Driver:
    """One rack of trays in a place, and what the driver does there, one step at a time."""

    def __init__(self, weft: InstalledWeft, place: str, trays: int) -> None:
        """Nodes, their slices and the class of channels."""
        rack = nvl72_rack(f"{place}-rack", trays=trays)
        self.clique = rack[0].labels["nvidia.com/gpu.clique"]
        self.place: Place = weft.place(place, rack)
        self.nodes = [f"{place}-{tray.name}" for tray in rack]
        with weft.cluster.api_client() as api:
            install(api, [_device_class(), *(_slice(node) for node in self.nodes)])

    def create_pool(self, name: str, replicas: int) -> None:
        """Replicas of two trays each."""
        self.place.create_pool(
            name,
            shape={"tensorParallel": 2 * TRAY_GPUS},
            placement={"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: self.place.namespace}},
            scaling={"mode": "External", "replicas": replicas},
        )

    def serves(self, name: str, replicas: int) -> bool:
        """Whether so many replicas serve, each with its ComputeDomain and no more, after one more step."""
        self.step()
        return self.place.is_ready(name, replicas) and len(self.domains()) == replicas

    def domains(self) -> list[Json]:
        """ComputeDomains of the place."""
        return self.place.objects(f"apis/{GROUP}/{VERSION}/{PLURAL}")

    def nodes_of(self, domain: Json) -> set[str]:
        """Nodes that carry the label of a ComputeDomain."""
        return {node for node, uid in self._labels().items() if uid == domain["metadata"]["uid"]}

    def delete(self, domain: Json) -> None:
        """Delete a ComputeDomain as a user does."""
        self._custom("delete_namespaced_custom_object", domain["metadata"]["name"])

    def step(self) -> Driver:
        """Follow every ComputeDomain once."""
        for domain in self.domains():
            if domain["metadata"].get("deletionTimestamp"):
                self._let_go(domain)
            else:
                self._serve(domain)
        return self

    def labelled(self) -> dict[str, set[str]]:
        """Labelled nodes by the name of their ComputeDomain."""
        found = {domain["metadata"]["name"]: self.nodes_of(domain) for domain in self.domains()}
        return {name: nodes for name, nodes in found.items() if nodes}

    def _serve(self, domain: Json) -> None:
        meta, spec = domain["metadata"], domain["spec"]
        if not meta.get("finalizers"):
            self._custom("patch_namespaced_custom_object", meta["name"], {"metadata": {"finalizers": [COMPUTE_DOMAIN]}})
        template = spec["channel"]["resourceClaimTemplate"]["name"]
        with self.place.weft.cluster.api_client() as api:
            install(api, [_template(template, meta["uid"])], self.place.namespace)
        bound = {pod["spec"]["nodeName"] for pod in self.place.pods() if _claims(pod, template)}
        for node, uid in self._labels().items():
            if node in bound and uid is None:
                self._label(node, meta["uid"])
            elif node not in bound and uid == meta["uid"]:
                self._label(node, None)

    def _let_go(self, domain: Json) -> None:
        meta = domain["metadata"]
        with self.place.weft.cluster.api_client() as api:
            try:
                client.ResourceV1Api(api).delete_namespaced_resource_claim_template(
                    domain["spec"]["channel"]["resourceClaimTemplate"]["name"], self.place.namespace
                )
            except ApiException as error:
                assert error.status == NOT_FOUND  # noqa: PT017 - gone already
        for node in self.nodes_of(domain):
            self._label(node, None)
        self._custom("patch_namespaced_custom_object", meta["name"], {"metadata": {"finalizers": None}})

    def _labels(self) -> dict[str, str | None]:
        with self.place.weft.cluster.api_client() as api:
            nodes = client.CoreV1Api(api).list_node(label_selector=f"{PLACE_LABEL}={self.place.namespace}")
            found: list[Json] = api.sanitize_for_serialization(nodes)["items"]
        return {each["metadata"]["name"]: each["metadata"]["labels"].get(COMPUTE_DOMAIN) for each in found}

    def _label(self, node: str, uid: str | None) -> None:
        with self.place.weft.cluster.api_client() as api:
            client.CoreV1Api(api).patch_node(node, {"metadata": {"labels": {COMPUTE_DOMAIN: uid}}})

    def _custom(self, verb: str, name: str, *body: Json) -> None:
        with self.place.weft.cluster.api_client() as api:
            call = getattr(client.CustomObjectsApi(api), verb)
            more = {"_content_type": "application/merge-patch+json"} if body else {}
            call(GROUP, VERSION, self.place.namespace, PLURAL, name, *body, **more)


def _claims(pod: Json, template: str) -> bool:
    claims = pod["spec"].get("resourceClaims") or ()
    return "nodeName" in pod["spec"] and [template] == [claim["resourceClaimTemplateName"] for claim in claims]


def _device_class() -> Json:
    attributes = f"device.attributes['{DRIVER}']"
    expression = f"device.driver == '{DRIVER}' && {attributes}.type == 'channel' && {attributes}.id == 0"
    meta = {"name": CHANNEL}
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec}


def _slice(node: str) -> Json:
    """One channel and one daemon, as on every node of the driver."""
    devices = [
        {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
        for kind in ("channel", "daemon")
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-channels"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _template(name: str, uid: str) -> Json:
    parameters = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ComputeDomainChannelConfig",
        "domainID": uid,
        "allocationMode": "Single",
    }
    devices = {
        "requests": [{"name": "channel", "exactly": {"deviceClassName": CHANNEL}}],
        "config": [{"requests": ["channel"], "opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": devices}},
    }
