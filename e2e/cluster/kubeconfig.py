"""Kubeconfig files that hold all they need, so that they can be copied anywhere."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.certificates import Certificate


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an API server is, and the authority that vouches for it."""

    server: str
    authority: Path


def with_certificate(path: Path, endpoint: Endpoint, certificate: Certificate) -> Path:
    """Write a kubeconfig for the user that a client certificate names."""
    user = {
        "client-certificate-data": _encoded(certificate.certificate),
        "client-key-data": _encoded(certificate.key),
    }
    return _write(path, endpoint, user)


def with_token(path: Path, endpoint: Endpoint, token: str) -> Path:
    """Write a kubeconfig for whom a bearer token names."""
    return _write(path, endpoint, {"token": token})


def _write(path: Path, endpoint: Endpoint, user: dict[str, str]) -> Path:
    cluster = {"server": endpoint.server, "certificate-authority-data": _encoded(endpoint.authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "weft", "cluster": cluster}],
        "users": [{"name": "weft", "user": user}],
        "contexts": [{"name": "weft", "context": {"cluster": "weft", "user": "weft"}}],
        "current-context": "weft",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", opener=_private) as file:
        yaml.safe_dump(document, file, sort_keys=False)
    return path


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
