"""What an engine's `/metrics` say of its memory, with the standard library alone."""

from __future__ import annotations

import re

_BLOCKS = ("num_gpu_blocks", "block_size")
_SGLANG = re.compile(r"^sglang:max_total_num_tokens(?:{[^}]*})? (\S+)$", re.MULTILINE)


def kv_tokens(metrics: str) -> int:
    """Room for KV by the text of an engine's `/metrics`."""
    if told := _SGLANG.search(metrics):
        return int(float(told[1]))
    blocks, tokens = (re.search(rf'vllm:cache_config_info{{.*{name}="(\d+)"', metrics) for name in _BLOCKS)
    return int(blocks[1]) * int(tokens[1]) if blocks and tokens else 0
