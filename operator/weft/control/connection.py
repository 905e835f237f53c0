"""One connection to the API server for everything: the official client, and kopf with the same credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kopf
import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.config_exception import ConfigException

from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.control.options import RunOptions

POOLED_CONNECTIONS = 32


def connect(options: RunOptions) -> ApiClient:
    """A client for the cluster that the options name. Raises `Blocked` without usable credentials."""
    configuration = Configuration()
    try:
        if options.kubeconfig is None and options.context is None:
            _load_usual(configuration)
        else:
            config.load_kube_config(options.kubeconfig, options.context, configuration)
    except (ConfigException, OSError) as error:
        raise Blocked(Reason.ApiUnavailable, f"no usable credentials for a cluster: {error}") from error
    # Failures surface at once: retries and Retry-After are handled by us, and a retried write would escape the limit.
    configuration.retries = urllib3.Retry(total=0, redirect=0, respect_retry_after_header=False)
    configuration.connection_pool_maxsize = POOLED_CONNECTIONS
    return ApiClient(configuration)


def kopf_connection(client: ApiClient) -> kopf.ConnectionInfo:
    """The client's current credentials for kopf, which asks again whenever the API server refuses them."""
    configuration = client.configuration
    header = configuration.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = header.rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or ("Bearer" if token else None),
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def _load_usual(configuration: Configuration) -> None:
    try:
        config.load_incluster_config(configuration)
    except ConfigException:
        config.load_kube_config(client_configuration=configuration)
