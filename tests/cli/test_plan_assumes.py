"""`weft plan` tells what it takes for granted: the release of an image, and the word of an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.terminal import pool, weft
from weft.catalog import load
from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from tests.cli.terminal import Ending

DEFAULT = load().engine(EngineName.VLLM).version
TAGGED = {"image": "mirror.example/vllm/vllm-openai:v0.17.1"}
GUESSED = "say in spec.engine.version which one is in it"


def planned(body: dict[str, Any]) -> Ending:
    return weft("plan", "-f", "-", "--fabric", "1xH100", stdin=yaml.safe_dump(body))


@pytest.mark.parametrize(
    ("named", "release", "guessed"),
    [
        (TAGGED, "0.17.1", False),
        ({**TAGGED, "version": "0.30.0"}, "0.30.0", False),
        ({"image": "mirror.example/team/vllm:7"}, DEFAULT, True),
        ({}, DEFAULT, False),
    ],
    ids=["a tag", "a version that contradicts it", "no release", "no image"],
)
def test_the_release_of_an_image_is_shown_with_what_speaks_against_it(
    named: dict[str, str], release: str, *, guessed: bool
) -> None:
    ending = planned(pool(engine={"name": "VLLM", **named}))
    said = " ".join(ending.out.split())
    assert 0 == ending.code
    assert f"engine VLLM {release} {named.get('image', '')}" in said
    assert (GUESSED in said) is guessed
    assert ("ImageMismatched True" in said) is ("version" in named)


def test_what_an_administrator_would_have_to_allow_is_told_as_what_is_assumed() -> None:
    """Nobody asked one."""
    ending = planned(pool(pod={"relaxations": ["WritableRoot"]}))
    assert "the administrator allows spec" not in ending.out
    told = "spec.pod.relaxations WritableRoot, if the administrator allows it (`weft run --allow-relaxation`), as this"
    assert told in " ".join(ending.out.split())
