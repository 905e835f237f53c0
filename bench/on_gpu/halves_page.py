"""The part of docs/gpu.md about both halves of a split on one GPU."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from bench.on_gpu.compared import kv_bytes
from bench.on_gpu.halves import PROMPT_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench.on_gpu.compared import Measured

WEFTS_KIB = 64  # what Weft renders
_GB, _MILLI = 1e9, 1e3
_TEXT = """\
## Both halves of a split on one GPU

Two vLLM {vllm} on the same card with {name}, one of which only computes prompts, as Weft renders them for
`kvTransfer.transport: TCP`, with NIXL and what plays llm-d's sidecar between them. Over TCP, UCX (1.23) moves memory of
a GPU through memory of the host, in pieces of 8 KiB unless it is told otherwise. It says so itself
(`remote memory read ... software emulation tcp`), on one machine too, as CUDA's own way between processes knows no
failure of a peer. Medians in milliseconds, and the rate that the single user's wait for a first token implies beside
the same prompts without a second engine (KV of a mean prompt over what was waited longer).

| pieces | tokens in / out | users | TTFT through prefill | alone | TPOT through prefill | alone | GB/s |
|---|---|---|---|---|---|---|---|
{rows}

In pieces of {wefts} KiB, which Weft asks for ([ADR 0075](adr/0075-kv-over-tcp-in-pieces-of-64-kib.md)), a line through
what a byte cost in pieces of {low} and {high} gives {expected:.1f} GB/s; that size was not measured. Everything went
over the loopback of one machine: a network between the halves can only be slower.

A prefill engine was killed after it had computed a prompt of {prompt} tokens and before its KV was fetched: the decode
engine computed it itself (`kv_load_failure_policy: recompute`); {tokens} of {asked} tokens came, after {seconds:.2f} s.
With `UCX_TLS` without `tcp` neither engine starts: UCX finds no transport left that notices a peer's failure.
"""


def halves_part(pairs: Sequence[Measured]) -> str:
    """From pairs in the order of their pieces; the first one was asked without a second engine, too."""
    first, second = pairs[0], pairs[1]
    killed = first["killed"]
    return _TEXT.format(
        vllm=first["vllm"],
        name=first["model"],
        rows="\n".join(_row(first, pair, loop) for pair in pairs for loop in pair["split"]),
        wefts=WEFTS_KIB,
        expected=expected_rate(first, second) / _GB,
        low=first["pieces_kib"],
        high=second["pieces_kib"],
        prompt=PROMPT_TOKENS,
        **killed,
    )


def expected_rate(few: Measured, many: Measured) -> float:
    """Bytes a second in pieces of Weft's size: a byte costs so much, and its part of a piece."""
    costs = [1.0 / mean(_rates(few, pair)) for pair in (few, many)]
    parts = [1.0 / pair["pieces_kib"] for pair in (few, many)]
    slope = (costs[0] - costs[1]) / (parts[0] - parts[1])
    return 1.0 / float(costs[0] + slope * (1.0 / WEFTS_KIB - parts[0]))


def _rates(first: Measured, pair: Measured) -> list[float]:
    return [_rate(first, pair, loop) for loop in pair["split"] if loop["users"] == 1]


def _rate(first: Measured, pair: Measured, loop: Mapping[str, Any]) -> float:
    longer = loop["ttft_ms"]["p50"] - _alone(first, loop)["ttft_ms"]["p50"]
    return kv_bytes({**pair, "name": pair["model"]}, loop) / float(longer / _MILLI)


def _alone(first: Measured, loop: Mapping[str, Any]) -> Mapping[str, Any]:
    same = (loop["input"], loop["users"])
    return next(each for each in first["alone"] if (each["input"], each["users"]) == same)


def _row(first: Measured, pair: Measured, loop: Mapping[str, Any]) -> str:
    alone = _alone(first, loop)
    rate = f"{_rate(first, pair, loop) / _GB:.2f}" if loop["users"] == 1 else ""
    both = (("ttft_ms", 0), ("tpot_ms", 1))
    times = [f"{each[name]['p50']:.{digits}f}" for name, digits in both for each in (loop, alone)]
    cells = [f"{pair['pieces_kib']} KiB", f"{loop['input']} / {loop['output']}", str(loop["users"]), *times, rate]
    return f"| {' | '.join(cells)} |"
