"""The engine and version that a pod runs, by its label and image: its pool may plan others by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName, EngineRelease
from weft.engines.images.nim import is_nim, name_and_tag
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord


def engine_label(engine: EngineName) -> str:
    """The value of an engine in pod labels."""
    return engine.value.lower()


_BY_LABEL = {engine_label(engine): engine for engine in EngineName}


def engine_in(pod: PodRecord, planned: EngineName) -> EngineName:
    """The engine that a pod runs, by its label; the pool's planned engine if the label names none we know."""
    return _BY_LABEL.get(pod.engine, planned)


def release_in(pod: PodRecord, planned: EngineRelease) -> EngineRelease:
    """The release that a pod runs.

    The version is the planned one if the image is the planned one, else the version in the image's tag. Without one it
    is the planned version or, for another engine, Weft's default: metric names of other versions are read where a page
    lacks those of its own.
    """
    engine, image = engine_in(pod, planned.name), pod.image or planned.image
    if (engine, image) == (planned.name, planned.image):
        return planned
    usual = planned.version if engine is planned.name else load().engine(engine).version
    return EngineRelease(engine, _version_in(image) or usual, image)


def _version_in(image: str) -> str | None:
    """The version in an image's tag, or None; a NIM's tag is the version of the NIM."""
    tag = "" if is_nim(image) else name_and_tag(image)[1]
    try:
        parse_version(tag)
    except Invalid:
        return None
    return tag.removeprefix("v")
