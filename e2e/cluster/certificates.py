"""A certificate authority of a cluster's own, kept by the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VALID_DAYS = 365


class OpensslMissingError(RuntimeError):
    """There is no openssl command on PATH."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate names: for Kubernetes a user with groups, for a server the hosts it answers for."""

    name: str
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # as openssl writes them: "IP:127.0.0.1", "DNS:localhost"

    @property
    def distinguished_name(self) -> str:
        parts = [*(f"O={_escaped(group)}" for group in self.groups), f"CN={_escaped(self.name)}"]
        return "/" + "/".join(parts)

    @property
    def extensions(self) -> str:
        lines = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth"]
        if self.hosts:
            lines.append(f"subjectAltName={','.join(self.hosts)}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates into its folder."""

    directory: Path

    @classmethod
    def create(cls, directory: Path) -> Authority:
        """Make the authority's own certificate, unless the folder holds one."""
        directory.mkdir(parents=True, exist_ok=True)
        authority = cls(directory)
        if not authority.certificate.is_file():
            create_signing_key(authority.key)
            _openssl(
                ["req", "-x509", "-new", "-key", authority.key, "-out", authority.certificate],
                ["-days", str(VALID_DAYS), "-subj", "/CN=weft-cluster"],
                ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"],
            )
        return authority

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def key(self) -> Path:
        return self.directory / "ca.key"

    def issue(self, file_name: str, subject: Subject) -> Certificate:
        """Issue a certificate for servers and clients alike, as `file_name`.crt and .key."""
        issued = Certificate(self.directory / f"{file_name}.crt", self.directory / f"{file_name}.key")
        request, extensions = self.directory / f"{file_name}.csr", self.directory / f"{file_name}.ext"
        extensions.write_text(subject.extensions)
        create_signing_key(issued.key)
        _openssl(["req", "-new", "-key", issued.key, "-out", request, "-subj", subject.distinguished_name])
        _openssl(
            ["x509", "-req", "-in", request, "-out", issued.certificate, "-extfile", extensions],
            ["-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", str(VALID_DAYS)],
        )
        return issued


def create_signing_key(path: Path) -> Path:
    """Make an elliptic-curve key: quick to make, and good for certificates and service account tokens."""
    _openssl(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path])
    path.chmod(0o600)
    return path


def _openssl(*arguments: Sequence[str | Path]) -> None:
    if shutil.which("openssl") is None:
        raise OpensslMissingError("openssl is not on PATH; install it (Debian: apt install openssl)")
    command = ["openssl", *(str(argument) for group in arguments for argument in group)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("/", "\\/")
