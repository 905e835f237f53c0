"""Short pages of a vLLM that has answered so many requests, for cases in which the counts themselves are odd."""

from __future__ import annotations

TTFT, PROMPTS = "time_to_first_token_seconds", "request_prompt_tokens"


def page(finished: float, *, inside: float = 3, tokens: float | None = None, counted: float | None = None) -> str:
    """An engine that has answered so many prompts of 1,000 tokens, which are all in one bucket."""
    prompts, counted = 1000.0 * finished if tokens is None else tokens, finished if counted is None else counted
    told = {
        "num_requests_running": inside,
        "num_requests_waiting": 0,
        "kv_cache_usage_perc": 0.25,
        "request_success_total": finished,
        f"{TTFT}_sum": 0.2 * finished,
        f"{TTFT}_count": finished,
        f"{PROMPTS}_sum": prompts,
        f"{PROMPTS}_count": counted,
        f"{PROMPTS}_bucket#500": 0,
        f"{PROMPTS}_bucket#1000": counted,
        f"{PROMPTS}_bucket#+Inf": counted,
    }
    lines = []
    for name, value in told.items():
        base, _, bound = name.partition("#")
        lines.append(f"vllm:{base}{{" + (f'le="{bound}",' if bound else "") + f'model_name="m"}} {value}')
    return "\n".join(lines) + "\n"
