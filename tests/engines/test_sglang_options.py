"""Every option that Weft gives SGLang exists in the release that gets it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft.catalog
from tests.render.planned import is_planned
from tests.render.sglang_shapes import SGLANG_SHAPES
from weft.catalog.options import engine_options
from weft.domain.shape import EngineName, EngineRelease
from weft.engines import LaunchRequest, adapter_for
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


PLANNED = [(name, release) for name, each in SGLANG_SHAPES.items() for release in RELEASES if is_planned(each, release)]


@pytest.mark.parametrize(("name", "release"), PLANNED)
def test_weft_itself_uses_only_options_that_the_release_has(name: str, release: str) -> None:
    """Every golden shape, as each release would be launched with it."""
    golden, chosen = SGLANG_SHAPES[name].spec, SGLANG_SHAPES[name].status.plan
    assert golden is not None
    assert chosen is not None
    adapter = adapter_for(EngineName.SGLang)
    at = replace(chosen, engine=EngineRelease(EngineName.SGLang, release, "sglang"))
    for rank in range(chosen.shape.pods):
        command = adapter.launch(LaunchRequest(golden, at, rank, "leader")).command
        assert "--model-path" in command
        assert adapter.unknown_arguments(command[3:], release) == ()
        assert {word for word in command if word.startswith("--")} <= options(release)


def test_every_shape_is_held_against_the_newest_release_and_most_against_all() -> None:
    assert {name for name, release in PLANNED if release == RELEASES[-1]} == set(SGLANG_SHAPES)
    later = {name for name in SGLANG_SHAPES if (name, RELEASES[0]) not in PLANNED}
    assert later == {"sglang-shared-context", "sglang-kv-on-disks", "sglang-prefill-offload", "sglang-decode-efa"}


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
