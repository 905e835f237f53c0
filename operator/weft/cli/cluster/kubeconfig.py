"""The contexts of a kubeconfig, with an error that says what to do when it cannot be used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.cli.ends.failure import CLUSTER_REFUSES, CommandFailure

_HOST = "KUBERNETES_SERVICE_HOST"  # in every container of every pod
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """One context of a kubeconfig. `files` is as in KUBECONFIG: paths joined by colons."""

    files: str
    context: str
    namespace: str


def is_in_a_pod() -> bool:
    """Whether a service account is mounted."""
    return _HOST in os.environ and _TOKEN.exists()


def namespace_of_this_pod() -> str:
    """The namespace that the service account is mounted with, as kubectl takes it; `default` where there is none."""
    try:
        return _TOKEN.with_name("namespace").read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def has_a_kubeconfig() -> bool:
    """Whether at least one of the usual kubeconfig files exists."""
    return _exists(_usual_files())


def choose_context(files: str | None, context: str | None) -> KubeconfigContext:
    """Return the given context, or the current one; raises `CommandFailure` when there is none."""
    files = files or _usual_files()
    if not _exists(files):
        raise CommandFailure(_nothing_to_connect_with(files), CLUSTER_REFUSES)
    content = _merged(files)
    contexts = {str(entry["name"]): entry.get("context") or {} for entry in content.get("contexts") or ()}
    name = context or content.get("current-context")
    if name not in contexts:
        asked = f"no context {name!r}" if name else "no current context"
        message = f"kubeconfig {files} has {asked}: name one with --context; it has {', '.join(contexts) or 'none'}"
        raise CommandFailure(message, CLUSTER_REFUSES)
    return KubeconfigContext(files, name, contexts[name].get("namespace") or "default")


def _nothing_to_connect_with(files: str) -> str:
    missing = f"there is no kubeconfig at {files}"
    if _HOST not in os.environ or _TOKEN.exists():
        return f"{missing}: set KUBECONFIG to one that exists"
    return (
        f"{missing}, and this pod has no service account token at {_TOKEN}: "
        "let it mount one (automountServiceAccountToken), or set KUBECONFIG to a file that exists"
    )


def _exists(files: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in files.split(os.pathsep) if path)


def _merged(files: str) -> dict[str, Any]:
    """Merge all files into one, as kubectl does."""
    from kubernetes.config import ConfigException
    from kubernetes.config.kube_config import KubeConfigMerger
    from yaml import YAMLError

    try:
        merged: dict[str, Any] = KubeConfigMerger(files).config.value
        return {**merged, "contexts": [entry.value for entry in merged.get("contexts") or ()]}
    except (ConfigException, YAMLError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"kubeconfig {files} cannot be used ({_first_line(error)}): repair it, or set KUBECONFIG to another"
        raise CommandFailure(message, CLUSTER_REFUSES) from error


def _usual_files() -> str:
    return os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
