"""What a published image of an engine says of itself: engine, accelerators and release, by repository and tag."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.engines.images.nim import name_and_tag
from weft.engines.terms.versions import release_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.shape import EngineName, EngineRelease
    from weft.domain.spec import EngineSpec

REMEMBERED = 1024  # every pass asks about each plan
# 0.5.10.post1 of v0.5.10.post1-cu130-runtime, 1.3.0rc12 of 1.3.0rc12
_TAGGED = re.compile(r"v?(\d+(?:\.\d+){2,3}(?:\.?(?:rc|post)\d+)*)(?:[-_].*)?")


def wished_version(wish: EngineSpec, engine: EngineName) -> str | None:
    """The version that is asked for: by name, else by the tag of the engine's own image if Weft knows that release.

    None if neither says one.
    """
    if wish.version is not None or wish.image is None:
        return wish.version
    tagged = _tagged_release(wish.image)
    known = tagged is not None and _is_of(engine, wish.image) and load().engine(engine).knows(tagged)
    return tagged if known else None


def is_of_unknown_release(wish: EngineSpec, engine: EngineName) -> bool:
    """Whether an image is named of which nothing says the release."""
    return wish.image is not None and wished_version(wish, engine) is None


@functools.lru_cache(maxsize=REMEMBERED)
def image_mismatch(release: EngineRelease, accelerator: str) -> str | None:
    """How a published image contradicts what its pods are started as on these accelerators, or None.

    Builds of one's own have any tag, so only repositories of the catalog count.
    """
    engine, image, vendor = release.name, release.image, load().accelerator(accelerator).vendor
    published, named = _repositories().get(_repository(image), ()), f"spec.engine.image {image}"
    if not published:
        return None
    if not _is_of(engine, image):
        return f"{named} is one of {published[0][0]}, and is started as {engine}: spec.engine.name has to fit it"
    vendors = {of for _, of in published}
    if vendor not in vendors and vendor in dict(load().engine(engine).images):
        return f"{named} is the one for {', '.join(sorted(vendors))} accelerators, and runs on those of {vendor}"
    tagged = _tagged_release(image)
    if tagged is None or release_order(tagged) == release_order(release.version):
        return None
    return (
        f"{named} is tagged as release {tagged}, and is started as {engine} {release.version}: spec.engine.version has "
        "to be the release that is in it"
    )


def _tagged_release(image: str) -> str | None:
    found = _TAGGED.fullmatch(name_and_tag(image)[1])
    return found[1] if found else None


def _is_of(engine: EngineName, image: str) -> bool:
    return any(of is engine for of, _ in _repositories().get(_repository(image), ()))


def _repository(image: str) -> str:
    """The last two parts of an image's name, which mirrors keep: vllm/vllm-openai."""
    folder = image.partition("@")[0].rpartition("/")[0].rpartition("/")[2]
    return f"{folder}/{name_and_tag(image)[0]}"


@functools.cache
def _repositories() -> dict[str, tuple[tuple[EngineName, str], ...]]:
    """The engines and vendors of each repository that the catalog has images from."""
    found: dict[str, tuple[tuple[EngineName, str], ...]] = {}
    for repository, of in _published():
        found[repository] = (*found.get(repository, ()), of)
    return found


def _published() -> Iterator[tuple[str, tuple[EngineName, str]]]:
    for facts in load().engines:
        for vendor, image in facts.images:
            yield _repository(image), (facts.name, vendor)
