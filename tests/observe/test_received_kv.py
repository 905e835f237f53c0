"""KV that comes from another engine is neither computed nor found: it has all come over the link."""

from __future__ import annotations

import pytest

from tests.observe.telling import page
from tests.observe.test_odd_counts import SANE, seen


def told(finished: float, *, computed: float, fetches: bool) -> str:
    """An engine without a prefix cache, which so computes so many tokens of each prompt."""
    counts = {"request_prefill_kv_computed_tokens": computed * finished, "nixl_xfer_time_seconds": 0.5 * finished}
    lines = [
        f"vllm:{name}_{part} {value}"
        for name, total in counts.items()
        for part, value in (("sum", total), ("count", finished))
        if fetches or "nixl" not in name
    ]
    return page(finished) + "\n".join(lines) + "\n"


@pytest.mark.parametrize(("computed", "fetches", "found"), [(1.0, True, None), (400.0, False, pytest.approx(0.6))])
def test_what_was_fetched_is_no_hit_of_the_prefix_cache(computed: float, fetches: bool, found: object) -> None:  # noqa: FBT001
    observation = seen([told(each, computed=computed, fetches=fetches) for each in SANE])
    assert observation.computed_input_tokens == pytest.approx(computed)
    assert observation.prefix_hit == found
