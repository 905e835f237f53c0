"""A KV transport that both halves of a split name, and that has to be configured in both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.spec import PoolSpec


def goes_over(spec: PoolSpec, wire: str) -> bool:
    """Whether KV is to be transferred over `wire`; both halves of a split name the same one."""
    return spec.role.is_half and spec.kv.transport == wire


def refuse_what_lacks(spec: PoolSpec, wire: str, claims: Iterable[tuple[bool, str, str]]) -> None:
    """Raise `Invalid` for the first missing requirement, without which a half would end or silently use TCP.

    NIXL is the only connector for such transports. Claims are (whether it is missing, what that is, what to do).
    """
    other = spec.kv.connector != "NIXL"
    by_name = other, f"spec.kvTransfer.connector {spec.kv.connector} does not use it here", "use NIXL"
    for lacks, why, allowed in (by_name, *claims):
        if lacks:
            raise Invalid(Reason.SpecInvalid, f"spec.kvTransfer.transport {wire}: {why}; {allowed}")
