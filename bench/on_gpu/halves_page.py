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

Two vLLM {vllm} with {name} on the same H100, one of which only computes prompts. They were started as Weft starts them
for `kvTransfer.transport: TCP`, with NIXL, and with a stand-in for llm-d's sidecar between them. Over TCP, UCX (1.23)
copies GPU memory through host memory, in pieces of 8 KiB by default, also on one machine: CUDA's own transport between
processes does not notice a failed peer.

Medians in milliseconds. GB/s of one user is the KV of a mean prompt over the additional wait for the first token,
compared with the same prompts without a second engine (from the first run where a run did not ask them). GB/s of
several users is what they got together: the KV of a prompt each over the time of a whole answer.

| pieces | tokens in / out | users | TTFT through prefill | alone | TPOT through prefill | alone | GB/s |
|---|---|---|---|---|---|---|---|
{rows}

| rate over TCP, GB/s | one user | several users |
|---|---|---|
| measured in pieces of {wefts} KiB, which Weft sets ([ADR 0075](adr/0075-kv-over-tcp-in-pieces-of-64-kib.md)) | \
{slowest:.1f} to {fastest:.1f} | {crowded} |
| expected | {expected:.1f}, from a line through the costs of {low} and {high} KiB ({line:.1f}) before {wefts} was \
measured | {at_once:.0%} of it ([ADR 0091](adr/0091-links-bound-what-halves-serve.md)) |

Everything went over the loopback of one machine. A network between the halves can only be slower; none was measured.

A prefill engine was killed after it had computed a prompt of {prompt} tokens and before its KV was fetched: the decode
engine computed the prompt itself (`kv_load_failure_policy: recompute`), and {tokens} of {asked} tokens came, after
{seconds:.2f} s. Without `tcp` in `UCX_TLS` neither engine starts: UCX finds no transport that notices a failed peer.
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
