"""What the network between the halves of a split should do, by the figures that predictions count with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.transport import Transport
from weft.engines.kv.handover import wire_of
from weft.perf import handed_over_seconds, sent_bytes_per_second

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec
    from weft.domain.status import Observed
    from weft.perf import ReplicaModel


def transport_of(prefill: PoolSpec, sender: ReplicaModel) -> Transport:
    """The transport between the halves, with the times for prompts of declared length (mean and p95)."""
    workload = prefill.workload
    times = (handed_over_seconds(sender, tokens) for tokens in (workload.input_tokens, workload.input_tokens_p95))
    return Transport(wire_of(prefill), sent_bytes_per_second(sender), *times)


def expected_transfer_seconds(sender: ReplicaModel, observed: Observed | None) -> float | None:
    """Seconds that the KV transfer of a prompt of measured length should take; None where either is not measured."""
    if observed is None or observed.transfer is None or observed.input_tokens is None:
        return None
    return handed_over_seconds(sender, observed.input_tokens)
