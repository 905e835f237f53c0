"""What an engine can do in which of its releases: facts of `engines.yaml` that shapes are checked against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision

_VERSION = re.compile(r"^v?(\d{1,6}(?:\.\d{1,6}){1,5})")


@dataclass(frozen=True, slots=True)
class Releases:
    """Versions of an engine from `since` on; None: all of them."""

    since: str | None = None

    def include(self, version: str) -> bool:
        """Whether a version is one of them; what cannot be read is a recent build, and is."""
        found, least = numbers(version), numbers(self.since or "")
        return found is None or least is None or found >= least

    def __str__(self) -> str:
        """As a sentence says what is allowed."""
        return f"{self.since} or later" if self.since else "any version"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Each is what the releases named can do; the generations are those whose GPUs have kernels for it.

    `streams` are the schemes of object stores that it reads weights from, `drafting` the methods that older releases
    lack, `efa` and `nvlink` are None where it moves no KV over Amazon's EFA, or over NVLink between nodes, `kv_disk` is
    None where it keeps none within a size on disks.
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
        """Releases that serve a precision at all."""
        return dict(self.precisions).get(precision, Releases())

    def drafting_by(self, method: str) -> Releases:
        """Releases that draft tokens by a method."""
        return dict(self.drafting).get(method, Releases())


def numbers(version: str) -> tuple[int, ...] | None:
    """Those that a version begins with: 0.5.6 of `v0.5.6.post2`."""
    found = _VERSION.match(version)
    return tuple(map(int, found[1].split("."))) if found else None
