"""Live figures of a split, out of those of its halves: a request is prefilled once and then decoded once."""

from __future__ import annotations

from weft.domain.status import Observed


def figures_of_pair(prefill: Observed | None, decode: Observed | None) -> Observed | None:
    """Rate, prompts and TTFT as the prefill pool sees them, answers and TPOT as the decode pool does.

    KV transfers are timed by the half that waits for them, which one depends on the engine.

    `attainment` is that of the half that does worse: how often both miss together nobody counts.
    """
    if prefill is None and decode is None:
        return None
    first, last = prefill or Observed(), decode or Observed()
    shares = [share for share in (first.attainment, last.attainment) if share is not None]
    return Observed(
        requests_per_second=first.requests_per_second,
        input_tokens=first.input_tokens,
        output_tokens=last.output_tokens,
        prefix_hit=first.prefix_hit,
        ttft=first.ttft,
        tpot=last.tpot,
        attainment=min(shares, default=None),
        live=tuple(dict.fromkeys((*first.live, *last.live))),
        transfer=max((each.transfer for each in (first, last) if each.transfer is not None), default=None),
    )
