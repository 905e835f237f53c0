"""What Weft would know of a replica in Triton, whose vLLM backend reports few of the engine's series (ADR 0098)."""

from __future__ import annotations

import re

from tests.observe.pages import observed, pages, said
from weft.domain.shape import EngineName
from weft.domain.workload import Role
from weft.engines import series_for
from weft.scaling.reading import read

# All that `src/utils/metrics.py` of its releases 25.01 to 26.01 has; gaps between tokens have their old name there.
REPORTED = (
    *("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:time_to_first_token_seconds"),
    *("vllm:time_per_output_token_seconds", "vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens"),
    *("vllm:request_generation_tokens", "vllm:request_params_n"),
)
IN_26_01 = "0.13.0"


def of_triton(page: str) -> str:
    """The page of the engine itself, without what the backend leaves out."""
    shown = page.replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    kept = re.compile(rf"(?:# (?:HELP|TYPE) )?(?:{'|'.join(REPORTED)})(?:_bucket|_sum|_count)?[ {{]")
    return "".join(line for line in shown.splitlines(keepends=True) if kept.match(line))


async def test_a_page_of_triton_tells_neither_load_nor_how_many_requests_finished() -> None:
    """So that such a pool could neither shrink nor grow."""
    first, second = pages(f"vllm-{IN_26_01}")
    itself = await observed(series_for(EngineName.VLLM, IN_26_01), first, second)
    seen = await observed(series_for(EngineName.VLLM, IN_26_01), of_triton(first), of_triton(second))

    assert itself.missing == ()
    assert seen.missing == (
        *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        "vllm:request_success_total",
    )
    assert "the engine does not show vllm:num_requests_running" in said(seen)
    assert seen.answered == 0
    told = read(seen, Role.Aggregated)
    assert isinstance(told, str)
    assert told.startswith("none of 1 ready replicas answered: metrics lack vllm:num_requests_running")
