"""Which options the command line of an engine has, by release."""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from importlib import resources

from weft.catalog.limits import numbers
from weft.catalog.loading import read_yaml

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EngineOptions:
    """Options by release: `by_release[n]` are those of `releases[n]`, oldest first. Hashed by identity."""

    releases: tuple[Release, ...]
    by_release: tuple[frozenset[str], ...]

    def of(self, version: str) -> frozenset[str] | None:
        """Options of a version; between two known releases, those of either. None if unknown.

        A version later than all known ones counts as the latest; one that cannot be parsed is a custom build.
        """
        release = numbers(version)
        if release is None or not self.releases or release < self.releases[0]:
            return None
        before = bisect_right(self.releases, release) - 1
        after = min(bisect_left(self.releases, release), len(self.releases) - 1)
        return self.by_release[before] | self.by_release[after]

    def elsewhere(self, option: str, version: str) -> str | None:
        """How other releases have an option that a version lacks, in words; None if none has it."""
        release = numbers(version) or ()
        having = [each for each, taken in zip(self.releases, self.by_release, strict=True) if option in taken]
        if not having:
            return None
        return f"gone after {_text(having[-1])}" if having[-1] < release else f"new in {_text(having[0])}"


def _text(release: Release) -> str:
    return ".".join(map(str, release))


@functools.cache
def engine_options(file: str) -> EngineOptions:
    """The options in a file of this package, such as `vllm_options.yaml`. Read once per process."""
    table = read_yaml(resources.files("weft.catalog").joinpath(file).read_text(encoding="utf-8"))
    releases = tuple(tuple(map(int, text.split("."))) for text in table["releases"])
    taken: list[set[str]] = [set() for _ in releases]
    for group in table["groups"]:
        begin = releases.index(numbers(group["since"]) or ())
        end = releases.index(numbers(group["until"]) or ()) if "until" in group else len(releases) - 1
        for options in taken[begin : end + 1]:
            options.update(group["options"])
    return EngineOptions(releases, tuple(map(frozenset, taken)))
