"""One connection to the API server for everything: the official client, and kopf with the same credentials."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import kopf
import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME
from yaml import YAMLError

from weft.control.told_once import ToldOnce
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.control.options import RunOptions

POOLED_CONNECTIONS = 32
# What the client raises where a file of credentials is missing, unreadable, no text, or has other contents.
UNUSABLE = (ConfigException, OSError, YAMLError, AttributeError, KeyError, TypeError, ValueError)
CREDENTIALS = "credentials"  # the subject of what is told once
Refresh = Callable[[Configuration], None]

log = logging.getLogger(__name__)


def connect(options: RunOptions) -> ApiClient:
    """A client for the cluster that the options name. Raises `Blocked` without usable credentials."""
    configuration = Configuration()
    try:
        if options.kubeconfig is None and options.context is None:
            _load_usual(configuration)
        else:
            config.load_kube_config(options.kubeconfig, options.context, configuration)
    except UNUSABLE as error:
        raise Blocked(Reason.ApiUnavailable, f"no usable credentials for a cluster: {error}") from error
    if configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook = _keeping_the_last(configuration.refresh_api_key_hook)
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
    """Credentials of the pod, else those of a kubeconfig; if a pod has neither usable, the error is about its own."""
    try:
        config.load_incluster_config(configuration)
    except UNUSABLE as error:
        try:
            config.load_kube_config(client_configuration=configuration)
        except UNUSABLE:
            if SERVICE_HOST_ENV_NAME in os.environ:
                raise error from None
            raise


def _keeping_the_last(refresh: Refresh) -> Refresh:
    """A refresh of credentials that keeps the last ones while it cannot read any: it is asked before each request.

    A token that is kept for too long the API server refuses, which is told and tried again like any refusal.
    """
    told = ToldOnce()

    def kept(configuration: Configuration) -> None:
        try:
            refresh(configuration)
        except UNUSABLE as error:
            if told.is_news(CREDENTIALS, str(error)):
                log.warning("the credentials for the API server cannot be read, and the last ones stay: %s", error)
        else:
            told.end(CREDENTIALS)
        # The client's own puts itself back each time; its stubs know none.
        configuration.refresh_api_key_hook = kept  # type: ignore[assignment]

    return kept
