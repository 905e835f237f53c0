"""A wire that both halves of a split name for their KV, and the engines of both have to be told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.spec import PoolSpec


def goes_over(spec: PoolSpec, wire: str) -> bool:
    """Whether KV shall go over it: both halves of a split have the same word for it."""
    return spec.role.is_half and spec.kv.transport == wire


def refuse_what_lacks(spec: PoolSpec, wire: str, claims: Iterable[tuple[bool, str, str]]) -> None:
    """Raise `Invalid` for the first thing that lacks: without it a half would end, or go over TCP without a word.

    Of connectors only NIXL uses such a wire. Claims are whether something lacks, what that is, and what to do.
    """
    other = spec.kv.connector != "NIXL"
    by_name = other, f"kvTransfer.connector {spec.kv.connector} does not use it here", "use NIXL"
    for lacks, why, allowed in (by_name, *claims):
        if lacks:
            raise Invalid(Reason.SpecInvalid, f"kvTransfer.transport {wire}: {why}; {allowed}")
