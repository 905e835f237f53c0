"""Measured traffic in place of declared traffic, where there is enough of it."""

from __future__ import annotations

from math import floor, log, log10
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.status import Observed
from weft.domain.values.changed import changed
from weft.perf.lengths import lengths
from weft.scaling.reading import is_sane, what_is_missing
from weft.scaling.traffic.attainment import attainment
from weft.scaling.traffic.lengths_seen import (
    ENOUGH_KNOWN,
    MOST_OVER_MEAN,
    WELL_KNOWN,
    WINDOW_SECONDS,
    apart,
    has_enough_traffic,
    lengths_after,
    over_enough,
    p95_over_mean,
    rare_ones,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.pool_memory import LengthSample
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Slo, Workload
    from weft.scaling.traffic.lengths_seen import LongSample, Mean

# A mean in use stays until the measured one differs by more than chance explains, and by at least the lesser of these
# factors; beyond the greater one it is replaced however few the requests were.
LEAST_FACTOR, MOST_FACTOR = 1.05, 1.2
# Standard errors of a percentile or a mean of few requests, which takes minutes to know, of one over all that is known,
# and of one over the last minutes alone. That is asked for all day, and what is in force is rounded: two errors away is
# chance a few times an hour, and four a few times a day.
OF_FEW, OF_ALL, OF_MINUTES = 2.0, 3.0, 5.0
LASTING_MINUTES = 5
MOST_HIT = 0.95

_INPUTS, _OUTPUTS = attrgetter("inputs"), attrgetter("outputs")
_LONG_INPUTS = attrgetter("requests", "inputs", "inputs_p95")
_LONG_OUTPUTS = attrgetter("requests", "outputs", "outputs_p95")
_PROMPTS, _ANSWERS = attrgetter("input_tokens", "input_tokens_p95"), attrgetter("output_tokens", "output_tokens_p95")
_LEAST, _MOST = log(LEAST_FACTOR), log(MOST_FACTOR)
_MOST_TELL, _SOME_TELL = 0.5, 0.2  # shares of requests above which rare prompts come into use, and stay


def live_workload(
    declared: Workload,
    observation: PoolObservation | None,
    in_force: Workload | None,
    lately: tuple[LengthSample, ...] = (),
) -> Workload:
    """The declared workload with lengths and prefix hits as measured.

    `in_force` is the answer of the previous pass: values move only when they have changed notably, and stay when
    traffic stops. Where 95th percentiles are not reported, they keep their ratio to the means. `lately` are the lengths
    of the last minutes up to this look; without them this look alone is used.
    """
    base = in_force or declared
    if observation is None or not has_enough_traffic(observation):
        return base
    lately = lately or lengths_after((), observation, 0.0)
    if not lately:
        return base
    found = _with_means(base, observation, lately)
    is_another_minute = len(lately) == 1 or lately[-1].at - lately[-2].at >= WINDOW_SECONDS
    return _with_longest(found, lately) if is_another_minute else found


def _with_means(base: Workload, observation: PoolObservation, lately: tuple[LengthSample, ...]) -> Workload:
    """The workload with means and prefix hits as measured; 95th percentiles keep their ratio to the means."""
    inputs = _moved(base.input_tokens, base.input_tokens_p95, lately, _INPUTS)
    outputs = _moved(base.output_tokens, base.output_tokens_p95, lately, _OUTPUTS)
    hit = _hit(base.prefix_hit, observation.prefix_hit)
    if (inputs, outputs, hit) == (base.input_tokens, base.output_tokens, base.prefix_hit):
        return base
    return changed(
        base,
        input_tokens=inputs,
        output_tokens=outputs,
        input_tokens_p95=_kept(base.input_tokens, base.input_tokens_p95, inputs),
        output_tokens_p95=_kept(base.output_tokens, base.output_tokens_p95, outputs),
        prefix_hit=hit,
    )


def _kept(mean: float, p95: float, now: float) -> float:
    """A 95th percentile scaled from the previous mean to the present one.

    Their ratio is kept to nine digits: a mean that comes back has the very percentile that it had, not one a rounding
    error away, and its capacity is remembered.
    """
    scaled = now * float(f"{p95 / mean:.9g}") if mean > 0 else p95
    return max(now, scaled) if p95 >= mean else scaled


def _with_longest(base: Workload, lately: tuple[LengthSample, ...]) -> Workload:
    """The workload with 95th percentiles as measured, and with rare prompts that are far longer than the rest."""
    inputs = _longest(base.input_tokens, base.input_tokens_p95, lately, _LONG_INPUTS)
    outputs = _longest(base.output_tokens, base.output_tokens_p95, lately, _LONG_OUTPUTS)
    rare = _rare(base.rare_prompts, lately)
    if (inputs, outputs, rare) == (base.input_tokens_p95, base.output_tokens_p95, base.rare_prompts):
        return base
    return changed(base, input_tokens_p95=inputs, output_tokens_p95=outputs, rare_prompts=rare)


def _rare(in_force: tuple[float, float] | None, lately: tuple[LengthSample, ...]) -> tuple[float, float] | None:
    """Rare prompts as measured, once the queueing that they cause (as squared length) has changed beyond chance.

    Some minutes have none by chance: to stay, rare prompts need fewer requests that show them than to be recognised.
    """
    seen = rare_ones(apart(lately), _MOST_TELL if in_force is None else _SOME_TELL)
    if seen is None:
        return None
    part, times, error = seen
    if in_force is not None and abs(log(part * times**2 / (in_force[0] * in_force[1] ** 2))) <= max(
        _MOST, OF_FEW * error
    ):
        return in_force
    return float(f"{part:.2g}"), float(f"{times:.2g}")


def replaced_values(declared: Workload, in_force: Workload, observation: PoolObservation | None) -> tuple[str, ...]:
    """Names of the workload values that decisions take from metrics: a rate that can be trusted, differing lengths."""
    names = (
        ("requestsPerSecond", what_is_missing(observation) is None),
        ("inputTokens", in_force is not declared and _PROMPTS(in_force) != _PROMPTS(declared)),
        ("outputTokens", in_force is not declared and _ANSWERS(in_force) != _ANSWERS(declared)),
        ("prefixHitPercent", in_force.prefix_hit != declared.prefix_hit),
    )
    return tuple([name for name, replaced in names if replaced])


def live_figures(observation: PoolObservation | None, slo: Slo, live: tuple[str, ...]) -> Observed | None:
    """The observed figures for the status, with the names in `live`; None where there is nothing to show."""
    if observation is None or observation.answered <= 0:
        told = tuple(caveat.says for caveat in observation.caveats) if observation is not None else ()
        return Observed(live=live, caveats=told) if live or told else None
    return Observed(
        requests_per_second=_sane(observation.requests_per_second),
        input_tokens=_sane(observation.input_tokens),
        output_tokens=_sane(observation.output_tokens),
        prefix_hit=_sane(observation.prefix_hit),
        ttft=_wanted(observation.ttft, slo.ttft),
        tpot=_wanted(observation.tpot, slo.tpot),
        attainment=attainment(slo, observation),
        live=live,
        caveats=tuple([caveat.says for caveat in observation.caveats]),
        transfer=_sane(observation.transfer_seconds),
    )


def _moved(
    in_force: float,
    p95: float,
    lately: tuple[LengthSample, ...],
    which: Callable[[LengthSample], float | None],
) -> float:
    latest = which(lately[-1])
    if in_force > 0 and latest is not None and abs(log(latest / in_force)) <= _LEAST:
        return in_force
    usual, samples = lengths(in_force, p95), [(each.requests, which(each)) for each in apart(lately)]
    for error, soon, late in ((ENOUGH_KNOWN, OF_MINUTES, OF_FEW), (WELL_KNOWN, OF_ALL, OF_ALL)):
        seen = over_enough(samples, usual, error)
        if seen is not None and _is_another(in_force, seen, soon if seen.minutes < LASTING_MINUTES else late):
            return _rounded(seen.tokens)
    return in_force


def _is_another(in_force: float, seen: Mean, deviations: float) -> bool:
    """Whether a mean is notably off the one in force, and so many standard errors away unless it is far off."""
    if in_force <= 0:
        return True
    away = abs(log(seen.tokens / in_force))
    return away > _LEAST and (away > _MOST or away > deviations * seen.error)


def _longest(
    mean: float,
    in_force: float,
    lately: tuple[LengthSample, ...],
    which: Callable[[LengthSample], LongSample],
) -> float:
    seen = p95_over_mean([which(each) for each in apart(lately)])
    if seen is None or mean <= 0:
        return in_force
    away = abs(log(seen.times / min(MOST_OVER_MEAN, max(1.0, in_force / mean))))
    if away <= max(_LEAST, OF_FEW * seen.error):
        return in_force
    return mean * LEAST_FACTOR ** round(log(seen.times) / _LEAST)


def _hit(in_force: float, measured: float | None) -> float:
    """The share of prompts that is cached, in hundredths; it moves only when the uncached share has changed notably."""
    if not is_sane(measured):
        return in_force
    hit = min(measured, MOST_HIT)
    return round(hit, 2) if abs(log((1.0 - hit) / (1.0 - min(in_force, MOST_HIT)))) > _MOST else in_force


def _rounded(tokens: float) -> float:
    """Rounded by at most 2.5 % in even steps, so that pools with about the same traffic share one prediction."""
    decade = 10.0 ** floor(log10(tokens))
    step = decade / 20.0 * (1.0 if tokens < 2.0 * decade else 2.0 if tokens < 5.0 * decade else 4.0)
    return float(f"{round(tokens / step) * step:.3g}")


def _sane(value: float | None) -> float | None:
    return value if is_sane(value) else None


def _wanted(
    measured: tuple[tuple[int, float], ...], targets: tuple[tuple[int, float], ...]
) -> tuple[tuple[int, float], ...]:
    """Measured percentiles that are valid numbers: those with a target, or p50 and p95 where there are no targets."""
    percentiles = {percentile for percentile, _ in targets} or {50, 95}
    return tuple([(at, seconds) for at, seconds in measured if at in percentiles and is_sane(seconds)])
