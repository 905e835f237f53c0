"""Metrics of each split: its conditions, and the KV transfer that is expected between its halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.control.metrics.pass_gauges import GaugeTable, PassGauge
from weft.control.metrics.pool_gauges import conditions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.control.metrics.pass_gauges import Reading, ShownPass
    from weft.domain.decision import SplitDecision
    from weft.domain.snapshot import ResourceKey, SplitRecord


@dataclass(frozen=True, slots=True)
class StandingSplit:
    """A split that exists, whether it is decided on or is being deleted."""

    record: SplitRecord | None
    decision: SplitDecision | None


def _standing(shown: ShownPass) -> Iterator[tuple[ResourceKey, StandingSplit]]:
    decided = {each.key: each for each in shown.decisions.splits}
    records = {each.key: each for each in shown.snapshot.splits}
    for key in records | decided:
        yield key, StandingSplit(records.get(key), decided.get(key))


def _conditions(split: StandingSplit) -> Iterator[Reading]:
    existing = split.record.conditions if split.record is not None else ()
    return conditions_of(existing, split.decision.conditions if split.decision is not None else ())


def _rate(split: StandingSplit) -> Iterator[Reading]:
    """Absent without a plan, as is the time of a transfer."""
    if split.decision is not None and (wire := split.decision.transport) is not None:
        yield (wire.name,), wire.bytes_per_second


def _seconds(split: StandingSplit) -> Iterator[Reading]:
    if split.decision is None or (wire := split.decision.transport) is None:
        return
    seen = split.decision.observed
    yield ("mean",), wire.mean_seconds
    yield ("p95",), wire.p95_seconds
    yield ("measured",), seen.transfer_expected if seen is not None else None


SPLITS: GaugeTable[StandingSplit] = GaugeTable(
    ("namespace", "split"),
    _standing,
    (
        PassGauge(
            "weft_split_condition",
            "1 while a condition of the split is True",
            ("condition", "reason"),
            _conditions,
        ),
        PassGauge("weft_split_transport_bytes_per_second", "What each prefill GPU should send", ("transport",), _rate),
        PassGauge("weft_split_kv_transfer_expected_seconds", "What a KV transfer should take", ("prompt",), _seconds),
    ),
)
