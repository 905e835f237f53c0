"""What a pool's speculative decoding means for the performance model."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.catalog.drafting import Drafter, dense_drafting_layer, drafting_layer, drafting_part
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.engines.model.speculative import speculative_wish
from weft.perf.speculation import Draft, Speculation

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.catalog.drafting import DraftingMethod
    from weft.domain.model import Architecture
    from weft.domain.spec import EngineSpec


def refuse_drafting_without_heads(engine: EngineSpec, architecture: Architecture, catalog: Catalog) -> None:
    """Raise `Invalid` (FeatureUnsupported) for a method that needs what models of this family do not have."""
    wish = speculative_wish(engine.speculative_json)
    if wish is None or catalog.drafting[wish.method].works_for(architecture):
        return
    others = [name for name, method in catalog.drafting.items() if method.works_for(architecture)]
    raise Invalid(
        Reason.FeatureUnsupported,
        f"spec.engine.speculative.method {wish.method} needs heads of the model's own that draft, and "
        f"{architecture.model_id} has none; allowed: {', '.join(others)}",
    )


def resolve_speculation(engine: EngineSpec, architecture: Architecture, catalog: Catalog) -> Speculation | None:
    """The drafted tokens, draft model and acceptance probability; None where nothing is drafted."""
    if engine.speculative_json is None:
        return None
    return _speculation(engine.speculative_json, architecture, catalog)


@functools.lru_cache(maxsize=256)
def _speculation(wish_json: str, architecture: Architecture, catalog: Catalog) -> Speculation | None:
    wish = speculative_wish(wish_json)
    if wish is None:
        return None
    method = catalog.drafting[wish.method]
    return Speculation(wish.tokens, method.acceptance, _draft(method, wish.model, architecture, catalog))


def _draft(method: DraftingMethod, model: str | None, architecture: Architecture, catalog: Catalog) -> Draft | None:
    if method.drafter is Drafter.Nothing:
        return None
    if method.drafter is Drafter.Layer:
        return Draft(drafting_layer(architecture), method.precision, has_vocabulary=False)
    if method.drafter is Drafter.DenseLayer:
        return Draft(dense_drafting_layer(architecture, method.vocabulary), method.precision)
    known = catalog.architecture(model) if model is not None else None
    if known is None:
        return Draft(drafting_part(architecture, method.part), method.precision)
    stored = known.checkpoint_precision
    return Draft(known, Precision.BF16 if stored is Precision.FP32 else stored)
