"""How weights in an object store are read, which the user may not change to what cannot read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import SourceKind
from weft.engines.options.given import given

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec

STREAMER = "runai_streamer"  # the load format; one with an addition (`_sharded`) streams too


def refuse_another_loader(spec: PoolSpec) -> None:
    """Raise `Invalid` if the user's load format, which comes last and wins, would look for files and no store."""
    source, told = spec.model.source, given(spec.engine.args, "--load-format")
    if source is None or source.kind is not SourceKind.URI or not told or told.startswith(STREAMER):
        return
    message = f"spec.engine.args --load-format {told:.60} reads no weights from {source.location}: remove it"
    raise Invalid(Reason.ArgumentConflict, message)
