"""Images whose entry point is another server, as far as their names tell (ADR 0048, ADR 0061, ADR 0098)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.engines.images.nim import MODEL_FREE, OLDEST, is_driven, is_nim, name_and_tag
from weft.engines.terms.versions import dotted

if TYPE_CHECKING:
    from weft.domain.shape import EngineRelease

_TRITON = "tritonserver"
# What such an image is, and why no pool can be in it.
_A_NIM = ("a NIM", "which keeps its own choice of backend and shape")
_A_TRITON = ("Triton", "which stays ready after its engine has died, and reports no running requests and no KV use")


def foreign_server(image: str) -> tuple[str, str] | None:
    """What the image is and why it is unsuitable; None for an image of an engine itself."""
    if is_nim(image):
        return _A_NIM
    return _A_TRITON if name_and_tag(image)[0].startswith(_TRITON) else None


def refuse_foreign_image(release: EngineRelease) -> None:
    """Raise `Invalid` for an image known not to be vLLM's or SGLang's own, unless it is a NIM that Weft supports."""
    found = foreign_server(release.image)
    if found is None or is_driven(release):
        return
    what, why = found
    named = "vLLM" if release.name is EngineName.VLLM else release.name.value
    any_model = f"for any model ({release.name.value.lower()}-{MODEL_FREE}) or for one"
    either = f"a NIM {any_model}, by a tag from {dotted(OLDEST)} to 2.x"
    raise Invalid(
        Reason.FeatureUnsupported,
        f"spec.engine.image {release.image} is not supported on {named}: leave it out, or name an image of {named} or "
        f"{either}; this one is {what}, {why}",
    )
