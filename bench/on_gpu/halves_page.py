"""The part of docs/gpu.md about both halves of a split on one GPU."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING

from bench.on_gpu.compared import kv_bytes, replica_of
from bench.on_gpu.halves import PROMPT_TOKENS
from weft.perf import SEVERAL_THROUGH_THE_HOST, sent_bytes_per_second

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
the same prompts without a second engine (KV of a mean prompt over what was waited longer); a run that did not ask them
is held against those of the first one. Several users got so much together (KV of a prompt each over a whole answer).

| pieces | tokens in / out | users | TTFT through prefill | alone | TPOT through prefill | alone | GB/s |
|---|---|---|---|---|---|---|---|
{rows}

In pieces of {wefts} KiB, which Weft asks for ([ADR 0075](adr/0075-kv-over-tcp-in-pieces-of-64-kib.md)), it was
{slowest:.1f} to {fastest:.1f} GB/s for one user, and {crowded} for several, who wait for each other. Before
that size was measured, a line through what a byte cost in pieces of {low} and {high} said {line:.1f}; predictions
count with {expected:.1f}, and with {at_once:.0%} of it for several prompts at once
([ADR 0091](adr/0091-links-bound-what-halves-serve.md)). Everything went over the loopback of one machine: a
network between the halves can only be slower, and none was measured.

A prefill engine was killed after it had computed a prompt of {prompt} tokens and before its KV was fetched: the decode
engine computed it itself (`kv_load_failure_policy: recompute`); {tokens} of {asked} tokens came, after {seconds:.2f} s.
With `UCX_TLS` without `tcp` neither engine starts: UCX finds no transport left that notices a peer's failure.
"""


def halves_part(pairs: Sequence[Measured]) -> str:
    """From pairs in the order of their pieces; the first one was asked without a second engine, too."""
    first, rates = pairs[0], rates_of(pairs, WEFTS_KIB)
    around = [pair for pair in pairs if pair["pieces_kib"] != WEFTS_KIB][:2]
    killed = first["killed"]
    return _TEXT.format(
        vllm=first["vllm"],
        name=first["model"],
        rows="\n".join(_row(first, pair, loop) for pair in pairs for loop in pair["split"]),
        wefts=WEFTS_KIB,
        slowest=min(rates) / _GB,
        fastest=max(rates) / _GB,
        crowded=" and ".join(f"{each / _GB:.2f}" for each in rates_at_once(pairs, WEFTS_KIB)),
        at_once=SEVERAL_THROUGH_THE_HOST,
        line=rate_by_a_line(first, around[1]) / _GB,
        expected=_expected(first) / _GB,
        low=around[0]["pieces_kib"],
        high=around[1]["pieces_kib"],
        prompt=PROMPT_TOKENS,
        **killed,
    )


def rates_of(pairs: Sequence[Measured], pieces_kib: int) -> list[float]:
    """Bytes a second in pieces of that size, by the single user of each length."""
    return next(_rates(pairs[0], pair) for pair in pairs if pair["pieces_kib"] == pieces_kib)


def rates_at_once(pairs: Sequence[Measured], pieces_kib: int) -> list[float]:
    """Bytes a second in pieces of that size, by several users together."""
    return [
        _rate_at_once(pair, loop)
        for pair in pairs
        for loop in pair["split"]
        if pair["pieces_kib"] == pieces_kib and loop["users"] > 1
    ]


def rate_by_a_line(few: Measured, many: Measured) -> float:
    """Bytes a second in pieces of Weft's size: a byte costs so much, and its part of a piece."""
    costs = [1.0 / mean(_rates(few, pair)) for pair in (few, many)]
    parts = [1.0 / pair["pieces_kib"] for pair in (few, many)]
    slope = (costs[0] - costs[1]) / (parts[0] - parts[1])
    return 1.0 / float(costs[0] + slope * (1.0 / WEFTS_KIB - parts[0]))


def _expected(pair: Measured) -> float:
    return sent_bytes_per_second(replace(replica_of(pair, pair["split"][0]), wire="TCP"))


def _rates(first: Measured, pair: Measured) -> list[float]:
    return [_rate(first, pair, loop) for loop in pair["split"] if loop["users"] == 1]


def _rate(first: Measured, pair: Measured, loop: Mapping[str, Any]) -> float:
    longer = loop["ttft_ms"]["p50"] - _alone(first, pair, loop)["ttft_ms"]["p50"]
    return kv_bytes(pair, loop) / float(longer / _MILLI)


def _rate_at_once(pair: Measured, loop: Mapping[str, Any]) -> float:
    """Each user asks again once its answer has ended."""
    answer = loop["ttft_ms"]["p50"] + (loop["output"] - 1) * loop["tpot_ms"]["p50"]
    return float(loop["users"] * kv_bytes(pair, loop) / (answer / _MILLI))


def _alone(first: Measured, pair: Measured, loop: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same prompts without a second engine, of the same run where it asked them."""
    same, alone = (loop["input"], loop["users"]), pair["alone"] if "alone" in pair else first["alone"]
    return next(each for each in alone if (each["input"], each["users"]) == same)


def _row(first: Measured, pair: Measured, loop: Mapping[str, Any]) -> str:
    alone = _alone(first, pair, loop)
    rate = f"{(_rate(first, pair, loop) if loop['users'] == 1 else _rate_at_once(pair, loop)) / _GB:.2f}"
    both = (("ttft_ms", 0), ("tpot_ms", 1))
    times = [f"{each[name]['p50']:.{digits}f}" for name, digits in both for each in (loop, alone)]
    cells = [f"{pair['pieces_kib']} KiB", f"{loop['input']} / {loop['output']}", str(loop["users"]), *times, rate]
    return f"| {' | '.join(cells)} |"
