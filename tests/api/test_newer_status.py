"""A status that a newer release wrote, under its definitions, is read by this one for what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings

from tests.api.decisions import DECISIONS
from weft.api import parse_pool, pool_status

if TYPE_CHECKING:
    from weft.domain.decision import PoolDecision

NOW = 1_782_892_800.0


@settings(max_examples=30)
@given(DECISIONS)
def test_fields_of_a_newer_release_are_left_out_wherever_they_are(decision: PoolDecision) -> None:
    """An assignment that is not read is a replica that was given up: its pods would be drained."""
    written = pool_status(decision, {}, NOW)
    assert parse_pool({"status": _with_more(written)}).status == parse_pool({"status": written}).status


def _with_more(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same with a field that nobody knows in each of its objects; latencies by percentile are no object."""
    if isinstance(value, dict) and "p50" not in value:
        return {name: _with_more(inner) for name, inner in value.items()} | {"ofTheNextRelease": {"since": 5}}
    return [_with_more(each) for each in value] if isinstance(value, list) else value
