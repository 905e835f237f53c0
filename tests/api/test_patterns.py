"""Whoever writes a text that does not match its pattern reads in words what it takes, and no regular expression."""

from __future__ import annotations

import pytest

from tests.api.cases import resource
from tests.api.full import FULL_POOLS, leaves, replaced
from weft.api import parse_pool


def told(spec: dict[str, object]) -> str:
    record = parse_pool(resource("InferencePool", "chat", spec))
    return "" if record.problem is None else record.problem.message


@pytest.mark.parametrize("given", ["a b", "!", "-"])
def test_no_field_answers_with_a_regular_expression(given: str) -> None:
    """Every field of a spec in turn, also as the only item of a list."""
    texts = (given, [given])
    sentences = [told(replaced(full, path, value)) for full in FULL_POOLS for path in leaves(full) for value in texts]
    assert [] == [each for each in sentences if "^" in each or "pattern" in each]
    assert len([each for each in sentences if each]) > 20


def test_a_tag_that_names_no_release_is_told_what_a_release_is() -> None:
    spec: dict[str, object] = {"model": {"id": "example/model"}, "engine": {"name": "VLLM", "version": "latest"}}
    assert told(spec) == (
        "spec.engine.version: must be a release such as 0.32.0 (a tag such as latest does not say which one), "
        "not 'latest'"
    )
