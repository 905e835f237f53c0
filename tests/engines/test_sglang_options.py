"""Every option that Weft gives SGLang exists in the release that gets it."""

from __future__ import annotations

import pytest

import weft.catalog
from tests.render.sglang_shapes import SGLANG_SHAPES
from weft.catalog.options import engine_options
from weft.domain.shape import EngineName
from weft.engines import adapter_for
from weft.engines.sglang.conflicts import _OWNED
from weft.engines.terms.versions import parse_version
from weft.render import render_pods

TABLE = engine_options("sglang_options.yaml")
RELEASES = [".".join(map(str, release)) for release in TABLE.releases]
BEGINNINGS = {"--tp", "--pp", "--dp"}  # beginnings of options, which argparse takes for them


def options(release: str) -> frozenset[str]:
    """The options of a release of the table."""
    return TABLE.of(release) or frozenset()


@pytest.mark.parametrize("name", SGLANG_SHAPES)
def test_a_recorded_command_uses_only_options_of_its_release(name: str) -> None:
    record = SGLANG_SHAPES[name]
    assert record.status.plan is not None
    release = record.status.plan.engine.version
    assert release.partition(".post")[0] in RELEASES
    for pod in render_pods(record, record.status.assignments[0]):
        given = {word for word in pod["spec"]["containers"][0]["command"] if word.startswith("--")}
        assert "--model-path" in given
        assert given <= options(release)


def test_what_is_refused_as_ours_exists_in_some_release() -> None:
    """A misspelled entry would let the real option through."""
    known = frozenset().union(*TABLE.by_release)
    assert set(_OWNED) - known == BEGINNINGS


@pytest.mark.parametrize(
    ("option", "first"), [("--attn-dp-size", "0.5.22"), ("--dcp-size", "0.5.15"), ("--tp-size", "0.5.3")]
)
def test_the_table_tells_releases_apart(option: str, first: str) -> None:
    having = [release for release in RELEASES if option in options(release)]
    assert having == [release for release in RELEASES if parse_version(release) >= parse_version(first)]


def test_the_adapter_takes_the_newest_release_of_the_table() -> None:
    newest = max(RELEASES, key=parse_version)
    assert weft.catalog.load().engine(EngineName.SGLang).version == newest
    assert adapter_for(EngineName.SGLang).leaves_front_by == "Asking"
