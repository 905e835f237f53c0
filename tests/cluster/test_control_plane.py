"""The control plane is a real one, it is private to its user, and it never outlives him."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes import client

from e2e.cluster import build
from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions
from e2e.cluster.processes import ProcessFailedError, ProcessIdentity
from e2e.cluster.waiting import eventually

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]  # starts, of a minute each on a busy machine
REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
FORBIDDEN = 403


def test_it_takes_a_processor_15_seconds_and_leaves_nothing(binaries: None) -> None:
    before = spent_by_children()
    with ControlPlane.start() as cluster:
        pids = [process.pid for process in cluster.processes]
        assert cluster.directory.is_dir()
    assert not cluster.directory.exists()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert spent_by_children() - before < 15
    cluster.stop()  # a second time does nothing


def spent_by_children() -> float:
    """Seconds of a processor that processes used which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_given_folder_is_kept_and_used_again(binaries: None, tmp_path: Path) -> None:
    for expected in (None, "kept"):
        with ControlPlane.start(tmp_path / "state") as cluster, cluster.api_client() as api:
            core = client.CoreV1Api(api)
            names = [each.metadata.name for each in core.list_namespace().items if each.metadata]
            assert expected is None or expected in names
            if expected is None:
                core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="kept")))


def test_a_component_that_cannot_start_is_named_with_its_log(binaries: None) -> None:
    options = ControlPlaneOptions(api_server_flags={"no-such-flag": "1"})
    with pytest.raises(ProcessFailedError, match=r"(?s)kube-apiserver ended with code 1.*unknown flag: --no-such-flag"):
        ControlPlane.start(options=options)


def test_the_killed_parent_leaves_no_process_behind(binaries: None) -> None:
    """Not even SIGKILL of the parent leaves one; its folder goes when the next cluster starts."""
    script = (
        "import json, time; from e2e.cluster.control_plane import ControlPlane\n"
        "cluster = ControlPlane.start()\n"
        "print(json.dumps([str(cluster.directory), *(each.pid for each in cluster.processes)]), flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=REPOSITORY)
    assert parent.stdout is not None
    directory, *pids = json.loads(parent.stdout.readline())
    running = [ProcessIdentity.of(pid) for pid in pids]
    parent.kill()
    parent.communicate()
    eventually(lambda: not any(each.alive for each in running), "all have ended", timeout_seconds=PATIENCE_SECONDS)
    assert len(running) == 4
    with ControlPlane.start(options=ControlPlaneOptions(scheduler=False, controller_manager=False)):
        assert not Path(directory).exists()


@pytest.mark.parametrize("begun", ["certificates", "etcd"])
def test_ctrl_c_while_it_starts_leaves_nothing(begun: str, binaries: None, tmp_path: Path) -> None:
    """Neither a process nor the folder, which holds private keys; `begun` is what is in there first."""
    script = "from e2e.cluster.control_plane import ControlPlane; ControlPlane.start()"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "WEFT_CACHE": str(build.cache_directory())}
    command = [sys.executable, "-c", script]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=REPOSITORY, env=environment)
    there = f"{begun} are there"
    eventually(lambda: [*tmp_path.glob(f"*/{begun}")], there, timeout_seconds=PATIENCE_SECONDS, interval_seconds=0.01)
    children = _children(parent.pid)
    parent.send_signal(signal.SIGINT)
    parent.communicate()
    eventually(lambda: not any(each.alive for each in children), "all have ended", timeout_seconds=PATIENCE_SECONDS)
    assert [] == list(tmp_path.iterdir())


def test_processes_do_not_see_the_kubeconfig_of_the_machine(
    binaries: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(build.cache_directory()))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "not-ours"))
    monkeypatch.setenv("HOME", str(tmp_path))
    options = ControlPlaneOptions(scheduler=False, controller_manager=False)
    with ControlPlane.start(options=options) as cluster:
        environment = Path(f"/proc/{cluster.processes['kube-apiserver'].pid}/environ").read_text()
        assert str(tmp_path) not in environment
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_namespace_goes_away(core: client.CoreV1Api) -> None:
    """The namespace controller runs: it empties the namespace first."""
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="short-lived")))
    core.create_namespaced_config_map("short-lived", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="content")))
    core.delete_namespace("short-lived")
    assert eventually(
        lambda: "short-lived" not in _namespaces(core), "the namespace is gone", timeout_seconds=PATIENCE_SECONDS
    )


def test_what_belongs_to_a_deleted_owner_goes_with_it(core: client.CoreV1Api, namespace: str) -> None:
    """The garbage collector runs."""
    owner = core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="owner")))
    assert owner.metadata is not None
    reference = client.V1OwnerReference(
        api_version="v1", kind="ConfigMap", name="owner", uid=str(owner.metadata.uid), controller=True
    )
    owned = client.V1ObjectMeta(name="owned", owner_references=[reference])
    core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=owned))
    core.delete_namespaced_config_map("owner", namespace)
    eventually(
        lambda: "owned" not in _config_maps(core, namespace), "the owned one is gone", timeout_seconds=PATIENCE_SECONDS
    )


def test_a_service_account_may_do_what_its_role_says_and_no_more(
    cluster: ControlPlane, api: client.ApiClient, core: client.CoreV1Api, namespace: str
) -> None:
    core.create_namespaced_service_account(namespace, client.V1ServiceAccount(metadata=_named("reader")))
    rules = [client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])]
    rbac = client.RbacAuthorizationV1Api(api)
    rbac.create_namespaced_role(namespace, client.V1Role(metadata=_named("reader"), rules=rules))
    rbac.create_namespaced_role_binding(namespace, _binding("reader", namespace))
    with cluster.api_client(cluster.kubeconfig_for_service_account(namespace, "reader")) as limited:
        reader = client.CoreV1Api(limited)
        eventually(lambda: "kube-root-ca.crt" in _listed_or_refused(reader, namespace), "the role is in force")
        with pytest.raises(client.ApiException) as refused:
            reader.list_namespaced_secret(namespace)
    assert refused.value.status == FORBIDDEN


def test_a_user_is_who_his_certificate_says(cluster: ControlPlane) -> None:
    kubeconfig = cluster.kubeconfig_for_user("ada", ["writers", "team/inference"])
    with cluster.api_client(kubeconfig) as api:
        review = client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status is not None
    assert review.status.user_info is not None
    assert review.status.user_info.username == "ada"
    assert {"writers", "team/inference", "system:authenticated"} == set(review.status.user_info.groups or [])


def test_the_audit_log_says_who_did_what(cluster: ControlPlane, core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=_named("written")))
    writes = [
        (entry["user"]["username"], entry["verb"], entry["responseStatus"]["code"])
        for entry in map(json.loads, cluster.audit_log.read_text().splitlines())
        if entry.get("objectRef", {}).get("name") == "written"
    ]
    assert writes == [("admin", "create", 201)]


def test_an_outage_of_the_api_server_loses_nothing(
    cluster: ControlPlane, core: client.CoreV1Api, namespace: str
) -> None:
    core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=_named("before")))
    api_server = cluster.processes["kube-apiserver"]
    api_server.kill()
    assert not api_server.running
    api_server.start()
    eventually(lambda: _answers_config_maps(core, namespace, "before"), "it is back", timeout_seconds=PATIENCE_SECONDS)


def _answers_config_maps(core: client.CoreV1Api, namespace: str, name: str) -> bool:
    try:
        return name in _config_maps(core, namespace)
    except Exception:  # noqa: BLE001 - whatever a dead server makes of the connection
        return False


def _children(pid: int) -> list[ProcessIdentity]:
    ids = [int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in _words(task / "children")]
    return [ProcessIdentity.of(child) for child in ids if "etcd" in "".join(_words(Path(f"/proc/{child}/cmdline")))]


def _words(file: Path) -> list[str]:
    """Read what the kernel tells of a process; nothing when it has ended meanwhile."""
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


def _namespaces(core: client.CoreV1Api) -> set[str]:
    return {str(each.metadata.name) for each in core.list_namespace().items if each.metadata}


def _config_maps(core: client.CoreV1Api, namespace: str) -> set[str]:
    return {str(each.metadata.name) for each in core.list_namespaced_config_map(namespace).items if each.metadata}


def _listed_or_refused(core: client.CoreV1Api, namespace: str) -> set[str]:
    """None while they may not be listed: a role is in force only once the API server has heard of it."""
    try:
        return _config_maps(core, namespace)
    except client.ApiException as refusal:
        assert refusal.status == FORBIDDEN  # noqa: PT017 - as long as it is in force nowhere
        return set()


def _named(name: str) -> client.V1ObjectMeta:
    return client.V1ObjectMeta(name=name)


def _binding(name: str, namespace: str) -> client.V1RoleBinding:
    return client.V1RoleBinding(
        metadata=_named(name),
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=name),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name=name, namespace=namespace)],
    )
