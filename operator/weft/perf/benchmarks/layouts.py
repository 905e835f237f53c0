"""Layouts of prefill and decode replicas, read from the notes of measurement tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.domain.shape import Shape

_COUNT = "[1-9][0-9]{0,2}"
# `P:D = 2 x (tp1 dp8 ep8) : 1 x (tp1 dp32 ep32)`; the columns of the row have the sizes of decode.
_IN_FULL = re.compile(rf"P:D = ({_COUNT}) x \(tp({_COUNT}) dp({_COUNT}) ep({_COUNT})\) : ({_COUNT}) x")
# `2P1D`: the number of prefill and decode replicas, both of the sizes in the columns.
_COUNTED = re.compile(rf"\b({_COUNT})\s?P[\s:+/]?({_COUNT})\s?D\b", re.IGNORECASE)
# `prefill 1xTP8, decode 2xTP8`: sizes of prefill beside counts of both.
_TOLD = re.compile(
    rf"prefill\D{{0,12}}({_COUNT})\s?x\s?TP\s?({_COUNT}).{{0,24}}decode\D{{0,12}}({_COUNT})\s?x\s?TP", re.IGNORECASE
)
_APART = re.compile(r"P:D\b|\bP/D\b|\bdisagg|prefill\W{1,3}decode split", re.IGNORECASE)
_EXAMPLE = "P:D = 2 x (tp1 dp8 ep8) : 1 x (tp1 dp32 ep32)"


@dataclass(frozen=True, slots=True)
class Layout:
    """Replica counts of both halves, and the parallel sizes of a prefill replica."""

    text: str
    prefills: int
    decoders: int
    tensor: int
    data: int
    expert: int

    def prefill_shape(self, decode: Shape) -> Shape:
        """The shape of a prefill replica, given that of a decode replica."""
        return replace(
            decode,
            tensor_parallel=self.tensor,
            data_parallel=self.data,
            expert_parallel=self.expert,
            pipeline_parallel=1,
        )


def layout_of(note: str, decode: Shape) -> Layout | None:
    """The layout in a note; None where it has none. Raises `Invalid` for one that cannot be parsed."""
    if found := _IN_FULL.search(note):
        prefills, tensor, data, expert, decoders = map(int, found.groups())
        return Layout(found[0], prefills, decoders, tensor, data, expert)
    if found := _TOLD.search(note):
        prefills, tensor, decoders = map(int, found.groups())
        return Layout(found[0], prefills, decoders, tensor, 1, tensor if decode.expert_parallel > 1 else 1)
    if found := _COUNTED.search(note):
        prefills, decoders = map(int, found.groups())
        sizes = decode.tensor_parallel, decode.data_parallel, decode.expert_parallel
        return Layout(found[0], prefills, decoders, *sizes)
    if _APART.search(note):
        raise Invalid(Reason.SpecInvalid, f"note {note!r:.60} must be with a layout such as {_EXAMPLE}, or none")
    return None
