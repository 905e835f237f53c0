"""How far `sglang-router` and its descendant `vllm-router` let prompts that share a prefix fill one replica (ADR 0117).

Both send a prompt to a replica that knows much of it, until that has so many requests more than another and half as
many again; then it goes to the one with the fewest, which knows the prefix from then on. Their default is 64: a new
replica, or one of several behind one system prompt, stays idle until others have so many.
"""

from __future__ import annotations

# Only if that is half as many again, too (`--balance-rel-threshold`, left at 1.5), so that replicas with hundreds of
# requests keep their conversations. At 8 prefixes were lost, and at 32 prompts with one in common waited longer.
_MORE_REQUESTS = 16


def balance_arguments() -> tuple[str, ...]:
    """How many requests more a replica may have than another and still get what it knows."""
    return ("--balance-abs-threshold", str(_MORE_REQUESTS))
