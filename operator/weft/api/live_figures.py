"""`status.observed`: live figures that may not make a steady state write.

They are rewritten together, once they are 5 minutes old and one of them is 5 % off, or with a status that is written
for another reason; the exact ones are on `/metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.figures import SHORTEST_REWRITE_SECONDS, figure, is_off, milliseconds, rounded
from weft.api.status_fields import LONGEST_SENTENCE, MOST_CAVEATS
from weft.api.status_reading import read_pool_status
from weft.domain.texts.times import instant, read_instant

if TYPE_CHECKING:
    from weft.api.rules import Json
    from weft.domain.status import Observed


def observed_figures(current: Observed | None, shown: Json | None, now: float) -> Json | None:
    """`status.observed` as it should be at `now` (epoch seconds), given what is shown."""
    if current is None:
        return None
    previous = read_pool_status({"observed": shown}).observed
    if shown is not None and previous is not None and not _is_due(shown, now):
        return shown
    if shown is not None and previous is not None and not _observed_is_off(previous, current):
        return shown
    return _observed(current) | {"updated": instant(int(now))}


def _is_due(shown: Json, now: float) -> bool:
    try:
        return now - read_instant(shown["updated"]) >= SHORTEST_REWRITE_SECONDS
    except (KeyError, ValueError, TypeError, AttributeError):
        return True


def _observed_is_off(previous: Observed, current: Observed) -> bool:
    if sorted(previous.live) != sorted(current.live) or list(previous.caveats) != _sentences(current):
        return True
    return any(is_off(*pair) for pair in zip(_numbers(previous, current), _numbers(current, previous), strict=True))


def _numbers(observed: Observed, other: Observed) -> list[float | None]:
    """Every figure in a fixed order, with None for a percentile that only the other has."""
    plain = [
        observed.requests_per_second,
        observed.input_tokens,
        observed.output_tokens,
        observed.prefix_hit,
        observed.attainment,
        observed.transfer,
        observed.transfer_expected,
    ]
    ttft = dict(observed.ttft)
    tpot = dict(observed.tpot)
    plain += [ttft.get(key) for key in sorted({*ttft, *dict(other.ttft)})]
    return plain + [tpot.get(key) for key in sorted({*tpot, *dict(other.tpot)})]


def _observed(observed: Observed) -> Json:
    percent = {"prefixHitPercent": observed.prefix_hit, "attainmentPercent": observed.attainment}
    plain = {
        "requestsPerSecond": observed.requests_per_second,
        "inputTokens": observed.input_tokens,
        "outputTokens": observed.output_tokens,
        **{name: None if fraction is None else 100 * fraction for name, fraction in percent.items()},
    }
    figures: Json = {name: figure(rounded(value)) for name, value in plain.items() if value is not None}
    for name, percentiles in (("ttft", observed.ttft), ("tpot", observed.tpot)):
        if percentiles:
            figures[name] = {f"p{key}": milliseconds(rounded(seconds)) for key, seconds in percentiles}
    for name, value in (("transfer", observed.transfer), ("transferExpected", observed.transfer_expected)):
        if value is not None:
            figures[name] = milliseconds(rounded(value))
    if observed.live:
        figures["live"] = sorted(observed.live)
    if observed.caveats:
        figures["caveats"] = _sentences(observed)
    return figures


def _sentences(observed: Observed) -> list[str]:
    """Caveats as far as the schema lets them in, each once and in an order of their own."""
    return sorted({caveat[:LONGEST_SENTENCE] for caveat in observed.caveats})[:MOST_CAVEATS]
