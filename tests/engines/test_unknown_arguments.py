"""The user's arguments beside the options that a release of the engine has."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tests.render.nim_shapes import NIM_SHAPES
from tests.render.planned import RELEASES, is_planned
from tests.render.pools import shape
from tests.render.shapes import SHAPES
from tests.render.test_pods import GOLDEN
from weft.domain.shape import EngineName, EngineRelease
from weft.engines import LaunchRequest, adapter_for

BY_LABEL = {each.value.lower(): each for each in EngineName}
VLLM = adapter_for(EngineName.VLLM)
ENGINES = {name: each.status.engine.name for name, each in SHAPES.items() if each.status.engine is not None}
OF_VLLM = [name for name, engine in ENGINES.items() if engine is EngineName.VLLM]


@pytest.mark.parametrize(
    ("argument", "version"),
    [
        ("--enable-eplb", "0.10.0"),
        ("--eplb-config.window_size=100", "0.32.0"),
        ("--enable-dbo", "0.11.0"),
        ("--structured-outputs-config={}", "0.11.0"),
        ("--structured_outputs_config.backend", "0.32.0"),
        ("--guided-decoding-backend", "0.10.2"),
        ("--scheduling-policy=priority", "0.10.0"),
        ("--numa-bind", "0.20.0"),
        ("--enable-chunked-prefill", "0.10.0"),
        ("--no-enable-chunked-prefill", "0.33.0"),
        ("--enable-prefix-caching", "0.10.0"),
        ("--no-enable-prefix-caching", "0.33.0"),
        ("--max-num-seq", "0.30.0"),  # a beginning that one option has
        ("-O3", "0.33.0"),
        ("-O.mode=3", "0.33.0"),
        ("-cc.mode=3", "0.32.0"),
        ("-asc", "0.32.0"),
    ],
)
def test_what_the_release_knows_passes(argument: str, version: str) -> None:
    assert VLLM.argument_conflict((argument,), shape(8)) is None
    assert VLLM.unknown_arguments((argument,), version) == ()


@pytest.mark.parametrize(
    ("argument", "version", "told"),
    [
        ("--enable-prefix-cachng", "0.32.0", "--enable-prefix-cachng, perhaps --enable-prefix-caching"),
        ("--max_num_sequences=8", "0.29.0", "--max-num-sequences, perhaps --max-num-seqs"),
        ("--numa-bind", "0.19.1", "--numa-bind (new in 0.20.0)"),
        ("--no-numa-bind", "0.19.1", "--no-numa-bind (new in 0.20.0)"),
        ("--enable-dbo", "0.10.2", "--enable-dbo (new in 0.11.0)"),
        ("--guided-decoding-backend", "0.32.0", "--guided-decoding-backend (gone after 0.11.2)"),
        ("--frobnicate", "0.32.0", "--frobnicate"),
        ("-zz", "0.32.0", "-zz"),
    ],
)
def test_what_the_release_does_not_know_is_told_with_what_may_be_meant(argument: str, version: str, told: str) -> None:
    assert VLLM.unknown_arguments(("--max-num-seqs", "8", argument), version) == (told,)


def test_values_are_no_options_and_each_option_is_told_once() -> None:
    assert VLLM.unknown_arguments(("--seed", "-1", "-", "--", "8", "--frobnicate", "--frobnicate=2"), "0.32.0") == (
        "--frobnicate",
    )


def test_nothing_is_said_of_a_version_that_nobody_read() -> None:
    assert VLLM.unknown_arguments(("--frobnicate",), "nightly") == ()


@pytest.mark.parametrize("version", RELEASES[EngineName.VLLM])
@pytest.mark.parametrize("name", OF_VLLM)
def test_weft_itself_uses_only_options_that_the_release_has(name: str, version: str) -> None:
    """Every golden shape, as each release would be launched with it."""
    golden, chosen = SHAPES[name].spec, SHAPES[name].status.plan
    assert golden is not None
    assert chosen is not None
    at = replace(chosen, engine=EngineRelease(EngineName.VLLM, version, "vllm"))
    for rank in range(chosen.shape.pods if is_planned(SHAPES[name], version) else 0):
        command = VLLM.launch(LaunchRequest(golden, at, rank, "leader")).command
        assert VLLM.unknown_arguments(command[3:], version) == ()


@pytest.mark.parametrize("name", ENGINES)
def test_recorded_commands_use_only_options_of_the_release_of_their_image(name: str) -> None:
    """The tag of a NIM is its own, and says nothing of the engine in it."""
    release = SHAPES[name].status.engine
    assert release is not None
    for pod in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()):
        container = pod["spec"]["containers"][0]
        tag = container["image"].rpartition(":")[2].removeprefix("v")
        version = release.version if name in NIM_SHAPES else tag
        adapter = adapter_for(BY_LABEL[pod["metadata"]["labels"]["app.kubernetes.io/name"]])
        words = tuple(container["args"][1:]) if name in NIM_SHAPES else tuple(container["command"][3:])
        assert adapter.unknown_arguments(words, version) == ()
        assert adapter.unknown_arguments((*words, "--frobnicate"), version) == ("--frobnicate",)
