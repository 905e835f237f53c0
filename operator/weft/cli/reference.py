"""Names of our resources as people write them."""

from __future__ import annotations

from weft.cli.failure import CommandFailure

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
    """Kind and name of `InferencePool/chat`, `wpool/chat` or `pds/big`."""
    word, slash, name = text.partition("/")
    kind = _KIND_WORDS.get(word.lower())
    if not slash or not name or "/" in name or kind is None:
        raise CommandFailure(f"{text!r} is no name of a resource: write InferencePool/NAME or PDSplit/NAME")
    return kind, name
