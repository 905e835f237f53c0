"""Rules of other projects that decide counts, rebuilt from what they do, so that Weft is held against them fairly.

Each is tuned before it is judged, over its grid on another trace; its frontier turns its one knob of risk, from cheap
to safe. What a grid varies is what its users set; periods and windows that a project has in its code stay.

`policy`: what a rule sees, and what it answers. `signals`: what it reads of each pod. `windows`: what it remembers.
`hpa`: Kubernetes' own, as the controller in `horizontal`. `aibrix`: AIBrix's. `wva` and `keda`: llm-d's. `dynamo`:
    Dynamo's, with `forward_pass` and `engine_load` for its engines, and `predictors`, which `by_library` fits.
    `heteroscale`: HeteroScale's.
`static`: a fixed fleet. `schedule`: counts by the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Protocol

from weft.twin.policies.aibrix import AibrixOptions
from weft.twin.policies.dynamo import DynamoOptions
from weft.twin.policies.heteroscale import HeteroScaleOptions
from weft.twin.policies.hpa import HpaOptions
from weft.twin.policies.keda import BY_SIZE, GUIDE, KedaOptions
from weft.twin.policies.predictors import PredictorName
from weft.twin.policies.schedule import ScheduledChange, ScheduleOptions
from weft.twin.policies.static import StaticOptions
from weft.twin.policies.wva import GUIDE as WVA_GUIDE
from weft.twin.policies.wva import SAMPLE, WvaOptions

if TYPE_CHECKING:
    from weft.twin.policies.policy import Policy

__all__ = [
    "NAMES",
    "AibrixOptions",
    "DynamoOptions",
    "HeteroScaleOptions",
    "HpaOptions",
    "KedaOptions",
    "Options",
    "PredictorName",
    "ScheduleOptions",
    "ScheduledChange",
    "StaticOptions",
    "WvaOptions",
    "default",
    "frontier",
    "grid",
    "lacking",
    "tuned",
]


class Options(Protocol):
    """How a rule is set; frozen, and shown by its `repr`."""

    def policy(self) -> Policy:
        """A policy of its own for one simulation."""
        ...


@dataclass(frozen=True, slots=True)
class _Rule:
    """Options as the project ships them, those to tune over, those from cheap to safe, and in words what is tuned."""

    default: Options
    grid: tuple[Options, ...]
    frontier: tuple[Options, ...]
    tuned: str


# A strict TPOT fills a few percent of the KV cache only, so that targets reach far below those of any sample.
_KV = (0.03, 0.07, 0.15, 0.35, 0.7)
_KV_RISK = (0.7, 0.45, 0.25, 0.12, 0.06, 0.03)
_QUEUE_RISK = (32.0, 8.0, 4.0, 2.0, 1.0, 0.5)
_WVA_RISK = ((0.85, 0.70), (0.50, 0.40), (0.25, 0.20), (0.12, 0.09), (0.06, 0.045), (0.03, 0.022))
# The guide's band has to be raised where an unloaded step already takes half of the TPOT: its gap of 0.15 stays.
_KEDA_RISK = ((1.6, 1.45), (1.3, 1.15), (1.15, 1.0), (1.0, 0.85), (0.85, 0.70), (0.70, 0.55), (0.55, 0.40))
_PARTS = (1.2, 1.0, 0.9, 0.8, 0.7, 0.62)  # a target below an unloaded step would be met by nothing
_LOADS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.45)
_STATIC = tuple(StaticOptions(part=part) for part in (0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.5))


def _dynamo(predictor: PredictorName) -> _Rule:
    parts = tuple(DynamoOptions(predictor, part) for part in _PARTS)
    return _Rule(DynamoOptions(predictor), parts, parts, "the part of the SLO given as targets")


_RULES: dict[str, _Rule] = {
    "hpa": _Rule(
        HpaOptions(),
        tuple(HpaOptions(queue=queue, kv=kv) for queue, kv in product((0.5, 2.0, 8.0), _KV)),
        tuple(HpaOptions(queue=queue, kv=kv) for queue, kv in zip(_QUEUE_RISK, _KV_RISK, strict=True)),
        "both targets: requests waiting a pod, and part of the KV cache in use",
    ),
    "hpa-queue": _Rule(
        HpaOptions(kv=None),
        tuple(HpaOptions(queue=queue, kv=None) for queue in (0.25, *reversed(_QUEUE_RISK))),
        tuple(HpaOptions(queue=queue, kv=None) for queue in _QUEUE_RISK),
        "the target: requests waiting a pod",
    ),
    "hpa-kv": _Rule(
        HpaOptions(queue=None),
        tuple(HpaOptions(queue=None, kv=kv) for kv in (0.02, *reversed(_KV_RISK))),
        tuple(HpaOptions(queue=None, kv=kv) for kv in _KV_RISK),
        "the target: part of the KV cache in use",
    ),
    "aibrix": _Rule(
        AibrixOptions(),
        tuple(AibrixOptions(target=target, window_seconds=seconds) for target, seconds in product(_KV, (60.0, 180.0))),
        tuple(AibrixOptions(target=kv, prefill_waiting=queue) for kv, queue in zip(_KV_RISK, _QUEUE_RISK, strict=True)),
        "the target, part of the KV cache in use, and the window of its mean",
    ),
    "wva": _Rule(
        WvaOptions(),
        tuple(
            WvaOptions(grow_at=grow, shrink_at=shrink, behavior=behavior, tolerance=tolerance)
            for (grow, shrink), behavior, tolerance in product(
                (_WVA_RISK[0], *_WVA_RISK[2:5]), (WVA_GUIDE, SAMPLE), (0.1, 0.0)
            )
        ),
        tuple(WvaOptions(grow_at=grow, shrink_at=shrink) for grow, shrink in _WVA_RISK),
        "the parts of the capacity at which to grow and to shrink, the HPA's behaviour (guide or sample) and tolerance",
    ),
    "keda-slo": _Rule(
        KedaOptions(),
        tuple(
            KedaOptions(grow_at=grow, shrink_at=shrink, behavior=behavior)
            for (grow, shrink), behavior in product(_KEDA_RISK, (GUIDE, BY_SIZE))
        ),
        tuple(KedaOptions(grow_at=grow, shrink_at=shrink, behavior=BY_SIZE) for grow, shrink in _KEDA_RISK),
        "the parts of the SLO at which to grow and to shrink, and the HPA's behaviour (one pod or an eighth in 120 s)",
    ),
    "dynamo": _dynamo(PredictorName.Constant),
    "dynamo-kalman": _dynamo(PredictorName.Kalman),
    "dynamo-arima": _dynamo(PredictorName.Arima),
    "dynamo-prophet": _dynamo(PredictorName.Prophet),
    "heteroscale": _Rule(
        HeteroScaleOptions(),
        tuple(
            HeteroScaleOptions(load=load, pause_up=up, pause_down=down)
            for (up, down), load in product(((0.0, 0.0), (180.0, 600.0)), _LOADS)
        ),
        tuple(HeteroScaleOptions(load=load) for load in _LOADS),
        "the part of a replica's capacity that is aimed at, and seconds of pause after a change up and down",
    ),
    "static": _Rule(
        StaticOptions(),
        _STATIC,
        _STATIC,
        "times the fleet for the declared rate",
    ),
}

NAMES = tuple(_RULES)


def default(name: str) -> Options:
    """As the project ships it; `name` as `--policy` has it. Raises `KeyError` for another."""
    return _RULES[name].default


def grid(name: str) -> tuple[Options, ...]:
    """The options that a rule is tuned over."""
    return _RULES[name].grid


def frontier(name: str) -> tuple[Options, ...]:
    """The same rule from cheap to safe, by its one knob of risk."""
    return _RULES[name].frontier


def tuned(name: str) -> str:
    """In words, what its grid varies."""
    return _RULES[name].tuned


def lacking(name: str) -> str | None:
    """In a sentence, what a rule needs and has to be installed for it; None where nothing is missing."""
    options = default(name)
    library = options.predictor.lacking if isinstance(options, DynamoOptions) else None
    return f"{name} needs {library}, which is not here: install weft[predictors]" if library else None
