"""Names that resources of ours may have: Services and pods are named after them."""

from __future__ import annotations

import re

PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
LONGEST = {"InferencePool": 45, "PDSplit": 37}  # characters, which leave room for the names of what a resource owns


def refused_name(kind: str, name: str) -> str | None:
    """What the API server says of a name that it does not take for a resource of ours."""
    taken = len(name) <= LONGEST[kind] and re.fullmatch(PATTERN.strip("^$"), name)
    return None if taken else refusal_of_name(kind)


def refusal_of_name(kind: str) -> str:
    """The sentence for a name that cannot be."""
    return (
        "metadata.name must be a DNS label that starts with a letter, at most "
        f"{LONGEST[kind]} characters long: Services and pods are named after it"
    )
