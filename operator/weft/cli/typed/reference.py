"""Parses names of our resources as people type them."""

from __future__ import annotations

import re

from weft.cli.ends.failure import CommandFailure

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND_WORDS = {
    "inferencepool": "InferencePool",
    "inferencepools": "InferencePool",
    "inferencepools.weft.dev": "InferencePool",
    "wpool": "InferencePool",
    "pdsplit": "PDSplit",
    "pdsplits": "PDSplit",
    "pdsplits.weft.dev": "PDSplit",
    "pds": "PDSplit",
}


def parse_reference(text: str) -> tuple[str, str]:
    """Return kind and name of `InferencePool/chat`, `wpool/chat` or `pds/big`; raises `CommandFailure` for others."""
    word, slash, name = text.partition("/")
    kind = _KIND_WORDS.get(word.lower())
    if not slash or kind is None or not _DNS_LABEL.fullmatch(name):
        meant = text if _DNS_LABEL.fullmatch(text) else "NAME"
        raise CommandFailure(f"{text!r} is no name of a resource: write InferencePool/{meant} or PDSplit/{meant}")
    return kind, name


def refused_namespace(name: str) -> str | None:
    """Return what is wrong with the name of a namespace; None for a valid one."""
    if _DNS_LABEL.fullmatch(name):
        return None
    return f"{name!r} is no name of a namespace: it is at most 63 of a-z, 0-9 and -, and no - at its ends"
