"""What a pod runs, by its own label and image: its pool may want another engine or another version by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName, EngineRelease
from weft.engines.nim import is_nim, name_and_tag
from weft.engines.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord


def engine_label(engine: EngineName) -> str:
    """The engine as the labels of its pods say it."""
    return engine.value.lower()


_BY_LABEL = {engine_label(engine): engine for engine in EngineName}


def engine_in(pod: PodRecord, planned: EngineName) -> EngineName:
    """The engine that a pod runs; the planned one of its pool where its label says none that we know."""
    return _BY_LABEL.get(pod.engine, planned)


def release_in(pod: PodRecord, planned: EngineRelease) -> EngineRelease:
    """The release that a pod runs.

    Its version is that of the planned one in the same image, else what the image's tag says. One that says none
    counts as the planned version, or of another engine as the one that Weft takes by itself: names of other versions
    are read where a page lacks those of its own.
    """
    engine, image = engine_in(pod, planned.name), pod.image or planned.image
    if (engine, image) == (planned.name, planned.image):
        return planned
    usual = planned.version if engine is planned.name else load().engine(engine).version
    return EngineRelease(engine, _version_in(image) or usual, image)


def _version_in(image: str) -> str | None:
    """By its tag; that of a NIM is the NIM's own."""
    tag = "" if is_nim(image) else name_and_tag(image)[1]
    try:
        parse_version(tag)
    except Invalid:
        return None
    return tag.removeprefix("v")
