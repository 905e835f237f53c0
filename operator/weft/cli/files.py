"""Reading resources and fabric dumps from files or standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from weft.cli.failure import CommandFailure

Json = dict[str, Any]


def load_documents(path: str) -> list[Json]:
    """Every object in a YAML or JSON file (`-`: standard input); Kubernetes `List`s are opened."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailure(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise CommandFailure(f"{path} is no YAML: {problem}") from error
    return [body for document in documents if document is not None for body in _opened(path, document)]


def _opened(path: str, document: object) -> list[Json]:
    if not isinstance(document, dict):
        raise CommandFailure(f"{path} holds {json.dumps(document)[:40]}, not a Kubernetes object")
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        return [item for item in document["items"] if isinstance(item, dict)]
    return [document]


def of_kind(documents: list[Json], *kinds: str) -> list[Json]:
    """The objects of some kinds, in order."""
    return [body for body in documents if body.get("kind") in kinds]
