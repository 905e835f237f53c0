"""Render one container from what an engine adapter says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.labels import FILE, GROUP
from weft.engines import DISK_PATH, FILES_PATH, MountKind
from weft.render.security import container_security

if TYPE_CHECKING:
    from collections.abc import Collection

    from weft.domain.spec import RouterSpec
    from weft.engines import ContainerLaunch, EnvValue, HttpProbe, LaunchFile, ModelMount
    from weft.render.metadata import Json

HOME = f"/home/{GROUP.partition('.')[0]}"
HUGE_PAGES = {"2Mi": "/dev/hugepages", "1Gi": "/dev/hugepages-1Gi"}  # the usual mount paths, by page size
# An engine that never answered has no requests to finish: without this it keeps its GPUs for as long as one that has.
UNANSWERED_GRACE_SECONDS = 5
# A UID without an entry in /etc/passwd has neither home nor name; PyTorch and Triton ask for both.
_IDENTITY = {"HOME": HOME, "USER": "weft"}


def render_container(launch: ContainerLaunch, name: str, relaxations: Collection[str] = ()) -> Json:
    """The container without image and resources."""
    container: Json = {
        "name": name,
        "command": list(launch.command),
        "args": list(launch.args),
        "env": _environment(launch),
        "ports": [{"name": port.name, "containerPort": port.number, "protocol": "TCP"} for port in launch.ports],
        "lifecycle": {"preStop": {"sleep": {"seconds": launch.pre_stop_seconds}}},
        "securityContext": container_security(relaxations, launch.user),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(launch),
    }
    if launch.secrets_as_env:
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in launch.secrets_as_env]
    if launch.startup is not None:
        container["startupProbe"] = {
            **_probe(launch.startup),
            "terminationGracePeriodSeconds": UNANSWERED_GRACE_SECONDS,
        }
    if launch.readiness is not None:
        container["readinessProbe"] = _probe(launch.readiness)
    return {key: value for key, value in container.items() if value != []}


def render_volumes(launch: ContainerLaunch) -> list[Json]:
    """Volumes for scratch space (the root is read-only), shared memory, KV and the weights."""
    volumes: list[Json] = [{"name": "tmp", "emptyDir": {}}, {"name": "home", "emptyDir": {}}]
    if launch.shared_memory_bytes:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(launch.shared_memory_bytes)}})
    if launch.disk_bytes:
        volumes.append({"name": "kv", "emptyDir": {"sizeLimit": str(launch.disk_bytes)}})
    volumes += [{"name": _pages(size), "emptyDir": {"medium": f"HugePages-{size}"}} for size in launch.huge_pages]
    if launch.model_mount is not None:
        volumes.append(_model_volume(launch.model_mount))
    if launch.files:
        volumes.append({"name": "files", "downwardAPI": {"items": [_item(file) for file in launch.files]}})
    return volumes


def router_resources(router: RouterSpec) -> Json:
    """The resources of a router or sidecar container; CPU has no limit."""
    amounts = dict(router.resources)
    limits = {name: amount for name, amount in amounts.items() if name != "cpu"}
    return {"resources": {"requests": amounts, "limits": limits}} if amounts else {}


def file_annotations(launch: ContainerLaunch) -> dict[str, str]:
    """The files of a launch as annotations of the pod, so that it needs no other object to exist before it."""
    return {f"{FILE}{file.name}": file.text for file in launch.files}


def _item(file: LaunchFile) -> Json:
    return {"path": file.name, "fieldRef": {"fieldPath": f"metadata.annotations['{FILE}{file.name}']"}}


def _environment(launch: ContainerLaunch) -> list[Json]:
    given = {value.name for value in launch.env}
    identity = [{"name": name, "value": value} for name, value in _IDENTITY.items() if name not in given]
    return [*identity, *(_variable(value) for value in launch.env)]


def _variable(value: EnvValue) -> Json:
    if value.field is not None:
        return {"name": value.name, "valueFrom": {"fieldRef": {"fieldPath": value.field}}}
    if value.secret is not None:
        secret, key = value.secret
        return {"name": value.name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
    return {"name": value.name, "value": _literally(value.value)}


def _literally(text: str) -> str:
    """The text as Kubernetes has to be given it: of `$(NAME)` it makes another variable's value, of `$$` one dollar."""
    return text.replace("$", "$$")


def _probe(probe: HttpProbe) -> Json:
    return {
        "httpGet": {"path": probe.path, "port": probe.port},
        "periodSeconds": probe.period,
        "timeoutSeconds": probe.timeout,
        "failureThreshold": probe.failures,
    }


def _mounts(launch: ContainerLaunch) -> list[Json]:
    mounts: list[Json] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "home", "mountPath": HOME}]  # noqa: S108 - a volume
    if launch.shared_memory_bytes:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - a volume
    if launch.disk_bytes:
        mounts.append({"name": "kv", "mountPath": DISK_PATH})
    mounts += [{"name": _pages(size), "mountPath": HUGE_PAGES[size]} for size in launch.huge_pages]
    if launch.model_mount is not None:
        mounts.append({"name": "model", "mountPath": launch.model_mount.path, **_read_only(launch.model_mount)})
    if launch.files:
        mounts.append({"name": "files", "mountPath": FILES_PATH, "readOnly": True})
    return mounts


def _pages(size: str) -> str:
    """The volume name for a huge page size; it may not have capitals."""
    return f"hugepages-{size.lower()}"


def _model_volume(mount: ModelMount) -> Json:
    if mount.kind is MountKind.PVC:
        return {"name": "model", "persistentVolumeClaim": {"claimName": mount.location, **_read_only(mount)}}
    if mount.kind is MountKind.EmptyDir:
        return {"name": "model", "emptyDir": {}}
    image: Json = {"reference": mount.location}
    if mount.pull_policy is not None:
        image["pullPolicy"] = mount.pull_policy
    return {"name": "model", "image": image}


def _read_only(mount: ModelMount) -> Json:
    """Mount weights read-only, unless the pod downloads them."""
    return {} if mount.writable else {"readOnly": True}
