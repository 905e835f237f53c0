"""What each release of an engine can do: facts of `engines.yaml` that shapes are checked against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision

_VERSION = re.compile(r"^v?(\d{1,6}(?:\.\d{1,6}){1,5})")


@dataclass(frozen=True, slots=True)
class Releases:
    """The versions of an engine from `since` on; None: all of them."""

    since: str | None = None

    def include(self, version: str) -> bool:
        """Whether a version is included; one that cannot be parsed counts as a recent build, and is."""
        found, least = numbers(version), numbers(self.since or "")
        return found is None or least is None or found >= least

    def __str__(self) -> str:
        """The releases in words, as for what is allowed."""
        return f"{self.since} or later" if self.since else "any version"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The releases with each ability; `sparse_attention` are the GPU generations with kernels for it.

    `streams` are the object store schemes that it reads weights from, `drafting` the methods that older releases lack.
    `efa` and `nvlink` are None if it moves no KV over Amazon's EFA, or over NVLink between nodes, `kv_disk` is None if
    it keeps no KV of limited size on disks.
    """

    group_over_pods: Releases
    kv_offload: Releases
    kv_disk: Releases | None
    efa: Releases | None
    nvlink: Releases | None
    precisions: tuple[tuple[Precision, Releases], ...]
    sparse_attention: tuple[str, ...]
    streams: tuple[tuple[str, Releases], ...]
    drafting: tuple[tuple[str, Releases], ...]

    def serving(self, precision: Precision) -> Releases:
        """The releases that serve a precision."""
        return dict(self.precisions).get(precision, Releases())

    def drafting_by(self, method: str) -> Releases:
        """The releases that support a drafting method."""
        return dict(self.drafting).get(method, Releases())


def numbers(version: str) -> tuple[int, ...] | None:
    """The leading numbers of a version: 0.5.6 of `v0.5.6.post2`; None without any."""
    found = _VERSION.match(version)
    return tuple(map(int, found[1].split("."))) if found else None
