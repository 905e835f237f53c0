"""The contexts of a kubeconfig, with an error that says what to do when it cannot be used."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CLUSTER_REFUSES, CommandFailure

if TYPE_CHECKING:
    from kubernetes.client import Configuration

_MOST_SAID = 300  # characters of what a plugin says, which may be a page
_HOST = "KUBERNETES_SERVICE_HOST"  # in every container of every pod
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """One context of a kubeconfig. `files` is as in KUBECONFIG: paths joined by colons.

    `plugin` is the command that its user gets credentials from, with how to install it; empty where there is none.
    """

    files: str
    context: str
    namespace: str
    plugin: str = ""
    hint: str = ""


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
    namespace = contexts[name].get("namespace") or "default"
    return KubeconfigContext(files, name, namespace, *_plugin(content, contexts[name].get("user")))


def _plugin(content: dict[str, Any], user: str | None) -> tuple[str, str]:
    """The command that gives a user's credentials, and the hint on how to install it; empty where there is none."""
    named = [each.get("user") for each in content["users"] if isinstance(each, dict) and each.get("name") == user]
    runs = [each.get("exec") for each in named if isinstance(each, dict)]
    run: dict[str, Any] = next((each for each in runs if isinstance(each, dict)), {})
    return str(run.get("command") or ""), " ".join(str(run.get("installHint") or "").split())


def load_context(chosen: KubeconfigContext, configuration: Configuration) -> None:
    """Fill in the server and the credentials; raises `CommandFailure` where the context has none that can be used."""
    from kubernetes import config

    heard = _Heard()
    root = logging.getLogger()  # where the client logs why a plugin failed, before it goes on without credentials
    root.addHandler(heard)
    try:
        config.load_kube_config(chosen.files, chosen.context, configuration)
    except (config.ConfigException, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"context {chosen.context!r} of kubeconfig {chosen.files} cannot be used: {error}"
        raise CommandFailure(message, CLUSTER_REFUSES) from error
    finally:
        root.removeHandler(heard)
    if chosen.plugin and heard.words:
        raise CommandFailure(_no_credentials(chosen, heard.words[0]), CLUSTER_REFUSES)


class _Heard(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(" ".join(record.getMessage().split()))


def _no_credentials(chosen: KubeconfigContext, why: str) -> str:
    said = why.removeprefix("exec: ")[:_MOST_SAID]
    if "NoneType" in said:  # a mistake of the client where the plugin has written its error to this terminal
        said = "its own words are above"
    todo = "run it by hand, or log in again"
    if "No such file" in why:
        todo = chosen.hint or "install it"
    return (
        f"context {chosen.context!r} of kubeconfig {chosen.files} gets no credentials from the command "
        f"{chosen.plugin!r} ({said}): {todo}"
    )


def _nothing_to_connect_with(files: str) -> str:
    is_a_folder = Path(files).expanduser().is_dir()
    missing = f"{files} is a folder, and no kubeconfig" if is_a_folder else f"there is no kubeconfig at {files}"
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
        return {**merged, **{name: [each.value for each in merged.get(name) or ()] for name in ("contexts", "users")}}
    except (ConfigException, YAMLError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"kubeconfig {files} cannot be used ({_first_line(error)}): repair it, or set KUBECONFIG to another"
        raise CommandFailure(message, CLUSTER_REFUSES) from error


def _usual_files() -> str:
    return os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


def _first_line(error: Exception) -> str:
    """What is wrong in one line; for YAML, what was found and where, of which its first line has neither."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem and mark is not None:
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
