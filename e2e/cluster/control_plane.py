"""A control plane of real processes: etcd, API server, controller manager and scheduler.

    with ControlPlane.start() as cluster:
        ...  # KUBECONFIG is cluster.kubeconfig

It listens on loopback, keeps its state in a folder of its own, and neither reads nor writes the machine's own
kubeconfig. Its processes end with the process that started it, however that one ends.
"""

from __future__ import annotations

import contextlib
import ipaddress
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from dataclasses import fields
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubernetes import client, config

from e2e.cluster import build, components, kubeconfig
from e2e.cluster.certificates import Authority, Certificate, Subject, create_signing_key
from e2e.cluster.components import ControlPlaneOptions, Credentials, Layout, Ports
from e2e.cluster.ports import LOOPBACK, free_port
from e2e.cluster.processes import Process, ProcessFailedError, ProcessIdentity, Supervisor
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["ControlPlane", "ControlPlaneOptions"]

START_TIMEOUT_SECONDS = 180.0  # usually 4; a busy machine took over a minute
TOKEN_SECONDS = 24 * 3600
_TEMPORARY_PREFIX = "weft-cluster-"
_OWNER = "owner"


class ControlPlane:
    """A running control plane; made by `start`."""

    def __init__(self, layout: Layout, *, temporary: bool) -> None:
        """Prepare one that `bring_up` starts."""
        self.options = layout.options
        self.directory = layout.directory
        self.server = layout.server
        self.port = layout.ports.api_server
        self.kubeconfig = layout.kubeconfig
        self.audit_log = layout.audit_log
        self.certificate_authority = layout.credentials.authority.certificate
        self.processes = Supervisor(layout.directory)
        self._layout = layout
        self._temporary = temporary
        self._endpoint = kubeconfig.Endpoint(self.server, self.certificate_authority)
        self._administrator: client.ApiClient | None = None

    @classmethod
    def start(cls, directory: Path | None = None, options: ControlPlaneOptions | None = None) -> Self:
        """Start one and return when it is ready: about 5 s, or 17 minutes when binaries have to be built first.

        State goes to `directory`, and stays there; without one, to a temporary folder that `stop` removes.
        Raises ProcessFailedError with the end of a log when a process does not come up.
        """
        options = options or ControlPlaneOptions()
        binaries = build.ensure(options.binaries)
        folder = _temporary_directory() if directory is None else directory.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            ports = Ports(*(free_port() for _ in fields(Ports)))
            layout = Layout(folder, ports, _credentials(folder, options), binaries, options)
        except BaseException:  # Ctrl-C while certificates are made
            if directory is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(layout, temporary=directory is None).bring_up()

    def bring_up(self) -> Self:
        """Start the processes; on failure stop what did start."""
        try:
            self._write_kubeconfigs()
            components.write_configuration(self._layout)
            self._start_components()
        except BaseException:  # Ctrl-C while starting, too
            self.stop()
            raise
        return self

    def _write_kubeconfigs(self) -> None:
        layout, credentials = self._layout, self._layout.credentials
        kubeconfig.with_certificate(self.kubeconfig, self._endpoint, credentials.admin)
        kubeconfig.with_certificate(
            layout.controller_manager_kubeconfig, self._endpoint, credentials.controller_manager
        )
        kubeconfig.with_certificate(layout.scheduler_kubeconfig, self._endpoint, credentials.scheduler)

    def _start_components(self) -> None:
        self.processes.start("etcd", components.etcd(self._layout))
        api_server = self.processes.start(
            "kube-apiserver",
            components.api_server(self._layout),
            grace_seconds=0.0 if self._temporary else 2.0,  # it would wait for every watch to end
        )
        self._wait(api_server, f"{self.server}/readyz")
        clients = self._start_clients()
        for process, port in clients:
            self._wait(process, f"https://{LOOPBACK}:{port}/healthz")
        if self.options.controller_manager:
            eventually(
                self._serves_service_accounts, "the default service account", timeout_seconds=START_TIMEOUT_SECONDS
            )

    def _start_clients(self) -> list[tuple[Process, int]]:
        layout, ports = self._layout, self._layout.ports
        started = []
        if self.options.controller_manager:
            argv = components.controller_manager(layout)
            started.append((self.processes.start("kube-controller-manager", argv), ports.controller_manager))
        if self.options.scheduler:
            started.append((self.processes.start("kube-scheduler", components.scheduler(layout)), ports.scheduler))
        return started

    def _wait(self, process: Process, url: str) -> None:
        context = ssl.create_default_context(cafile=str(self.certificate_authority))
        context.load_cert_chain(self._layout.credentials.admin.certificate, self._layout.credentials.admin.key)

        def ready() -> bool:
            self._raise_if_etcd_ended()
            return _answers(url, context)

        process.wait_until(ready, START_TIMEOUT_SECONDS)

    def _raise_if_etcd_ended(self) -> None:
        etcd = self.processes["etcd"]
        if not etcd.running:
            raise ProcessFailedError(etcd, f"ended with code {etcd.exit_code}")

    def _serves_service_accounts(self) -> bool:
        with self.api_client() as api, contextlib.suppress(client.ApiException):
            return bool(client.CoreV1Api(api).read_namespaced_service_account("default", "default"))
        return False

    def stop(self) -> None:
        """Stop everything that runs in the cluster's name, and remove a temporary folder. Safe to call twice."""
        self.processes.stop_all()
        if self._administrator is not None:
            self._administrator.rest_client.pool_manager.clear()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def api_client(self, kubeconfig_file: Path | None = None) -> client.ApiClient:
        """Return a client of the official library, for use as a context manager.

        The administrator's is one for all, and keeps its connections: a new one costs two TLS handshakes' time, which
        those who poll would pay each time. Another kubeconfig gets a client of its own.
        """
        if kubeconfig_file is not None:
            return _client_of(kubeconfig_file)
        if self._administrator is None:
            self._administrator = _client_of(self.kubeconfig)
        return self._administrator

    def kubeconfig_for_user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig for a user who may do what RBAC grants to the name and the groups."""
        file_name = "user-" + _file_name(name)
        authority = Authority(self.certificate_authority.parent)
        certificate = authority.issue(file_name, Subject(name, tuple(groups)))
        return kubeconfig.with_certificate(self._kubeconfigs / file_name, self._endpoint, certificate)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig for a service account that exists; its token is good for a day."""
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[components.ISSUER], expiration_seconds=TOKEN_SECONDS)
        )
        with self.api_client() as api:
            answer = client.CoreV1Api(api).create_namespaced_service_account_token(name, namespace, request)
        token = answer.status.token if answer.status else None
        if not token:
            raise RuntimeError(f"the API server issued no token for {namespace}/{name}")
        file_name = _file_name(f"service-account-{namespace}-{name}")
        return kubeconfig.with_token(self._kubeconfigs / file_name, self._endpoint, token)

    @property
    def _kubeconfigs(self) -> Path:
        return self.directory / "kubeconfigs"


def _client_of(kubeconfig_file: Path) -> client.ApiClient:
    api: client.ApiClient = config.new_client_from_config(config_file=str(kubeconfig_file))
    return api


def _answers(url: str, context: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310 - our own https address
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _credentials(directory: Path, options: ControlPlaneOptions) -> Credentials:
    authority = Authority.create(directory / "certificates")
    return Credentials(
        authority=Certificate(authority.certificate, authority.key),
        serving=authority.issue("serving", Subject("kube-apiserver", hosts=_serving_hosts(options))),
        admin=authority.issue("admin", Subject("admin", ("system:masters",))),
        controller_manager=authority.issue("controller-manager", Subject("system:kube-controller-manager")),
        scheduler=authority.issue("scheduler", Subject("system:kube-scheduler")),
        kubelet_client=authority.issue("kubelet-client", Subject("kube-apiserver", ("system:masters",))),
        front_proxy=authority.issue("front-proxy", Subject("front-proxy-client")),
        service_accounts=_kept_key(authority.directory / "service-accounts.key"),
    )


def _kept_key(path: Path) -> Path:
    return path if path.is_file() else create_signing_key(path)


def _serving_hosts(options: ControlPlaneOptions) -> tuple[str, ...]:
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    service_address = str(next(ipaddress.ip_network(options.service_cidr).hosts()))
    addresses = dict.fromkeys((LOOPBACK, service_address, options.reachable_address))
    cluster_name = "kubernetes.default.svc.cluster.local"
    return (*(f"DNS:{name}" for name in (*names, cluster_name)), *(f"IP:{address}" for address in addresses))


def _temporary_directory() -> Path:
    """Make a folder that names its owner, after removing those whose owner was killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY_PREFIX}*"):
        owner = ProcessIdentity.read(left / _OWNER)
        if owner is not None and not owner.alive:
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX))
    ProcessIdentity.of(getpid()).write(directory / _OWNER)
    return directory


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-." else "-" for character in name)
