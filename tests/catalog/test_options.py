"""Options of an engine's command line, as its releases have them."""

from __future__ import annotations

import pytest

from weft.catalog import load
from weft.catalog.limits import numbers
from weft.catalog.options import EngineOptions, engine_options
from weft.domain.shape import EngineName

VLLM, SGLANG = engine_options("vllm_options.yaml"), engine_options("sglang_options.yaml")


@pytest.mark.parametrize(
    ("option", "before", "version"),
    [
        ("--nnodes", "0.11.0", "0.11.1"),
        ("--decode-context-parallel-size", "0.10.1", "0.10.2"),
        ("--prefill-context-parallel-size", "0.11.2", "0.12.0"),
        ("--shutdown-timeout", "0.17.1", "0.18.0"),
        ("--numa-bind", "0.19.1", "0.20.0"),
        ("--structured-outputs-config", "0.10.2", "0.11.0"),
        ("--max-num-queued-reqs", "0.28.0", "0.29.0"),
    ],
)
def test_an_option_is_there_from_its_release_on(option: str, before: str, version: str) -> None:
    assert option not in (VLLM.of(before) or ())
    assert option in (VLLM.of(version) or ())
    assert option in (VLLM.of("0.33.0") or ())


def test_an_option_is_gone_after_its_last_release() -> None:
    assert "--swap-space" in (VLLM.of("0.17.1") or ())
    assert "--swap-space" not in (VLLM.of("0.18.0") or ())


def test_between_two_releases_is_what_either_takes() -> None:
    """Of 0.15 there is no source distribution."""
    between, before, after = (VLLM.of(version) for version in ("0.15.1", "0.14.1", "0.16.0"))
    assert before is not None
    assert after is not None
    assert before ^ after
    assert between == before | after


@pytest.mark.parametrize(("version", "same"), [("v0.32.0+cpu", "0.32.0"), ("0.33.7", "0.33.0"), ("0.40", "0.33.0")])
def test_a_build_and_a_later_release_are_taken_for_the_one_they_follow(version: str, same: str) -> None:
    assert VLLM.of(version) == VLLM.of(same)


@pytest.mark.parametrize("version", ["0.9.2", "nightly"])
def test_of_what_was_not_read_nothing_is_said(version: str) -> None:
    assert VLLM.of(version) is None


@pytest.mark.parametrize(("engine", "options"), [(EngineName.VLLM, VLLM), (EngineName.SGLang, SGLANG)])
def test_the_releases_read_are_those_that_weft_starts(engine: EngineName, options: EngineOptions) -> None:
    facts = load().engine(engine)
    assert options.releases[0][: len(facts.oldest)] == facts.oldest
    assert options.releases[-1][: len(facts.newest)] == facts.newest
    assert numbers(facts.version) in options.releases


def test_limits_begin_no_earlier_than_the_options_they_need() -> None:
    """A release that lacks the option cannot have the ability."""
    limits = load().engine(EngineName.VLLM).limits
    for able, option in ((limits.group_over_pods, "--nnodes"), (limits.kv_offload, "--kv-offloading-size")):
        assert able.since is not None
        assert option in (VLLM.of(able.since) or ())
