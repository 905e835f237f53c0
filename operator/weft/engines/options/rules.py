"""Checks of user options: unknown to a release, with values that it does not take, or unfit for a shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.catalog.option_rules import Need, as_written, option_rules
from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.engines.options.batches import empty_batch
from weft.engines.options.given import given
from weft.engines.options.settings import SET, settings_of
from weft.engines.options.spellings import values_given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.catalog.option_rules import OptionRule
    from weft.domain.shape import Shape
    from weft.domain.spec import EngineSpec
    from weft.engines.terms.launch import LaunchRequest

_TABLES = {
    EngineName.VLLM: "vllm_options.yaml",
    EngineName.SGLang: "sglang_options.yaml",
    EngineName.TensorRTLLM: "tensorrt_llm_options.yaml",
}
_OFF = frozenset({"", "false", "0"})
_LACKING: dict[Need, tuple[Callable[[Shape], bool], str]] = {
    Need.Experts: (lambda shape: shape.expert_parallel == 1, "expert parallelism (spec.shape.expertParallel above 1)"),
    Need.Ranks: (lambda shape: shape.data_parallel == 1, "data-parallel ranks (spec.shape.dataParallel above 1)"),
    Need.SeveralGPUs: (lambda shape: shape.domain_group_gpus == 1, "several GPUs in a stage"),
}


def refuse_options(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first argument that the engine would reject at start or ignore.

    A custom image may have options and values that the release lacks; rules about shapes apply to it too.
    """
    spec, shape, release = request.spec.engine, request.plan.shape, request.plan.engine
    named = f"{release.name.value} {release.version}"
    nothing = empty_batch(spec.args, release.name)
    if nothing is not None:
        message = f"spec.engine.args {nothing}: no request would ever run; use a number above 0, or remove it"
        raise Invalid(Reason.ArgumentConflict, message)
    why = next(_unknown(spec, release.name, release.version), None) if spec.image is None else None
    if why is not None:
        option, allowed = why
        raise Invalid(Reason.FeatureUnsupported, f"spec.engine.args {option} is not supported on {named}: {allowed}")
    conflict = options_shape_conflict(spec, shape, release.version)
    if conflict is not None:
        raise Invalid(Reason.ArgumentConflict, f"spec.engine.args {conflict}; this replica is {shape}")
    alone = _alone(spec, shape, release.version)
    if alone is not None:
        raise Invalid(Reason.ArgumentConflict, f"spec.engine.args {alone}")


def options_shape_conflict(spec: EngineSpec, shape: Shape, version: str, experts: int | None = None) -> str | None:
    """Why arguments cannot work in a shape, as text after `engine.args`, or None. `experts` is the model's number."""
    for rule, value in _used(spec, shape.engine, version):
        lacking = (sentence for need in rule.needs for lacks, sentence in (_LACKING[need],) if lacks(shape))
        first = next(lacking, None)
        if first is not None and not (rule.unless and _says(spec, rule.unless)):
            instead = f", or {rule.unless}" if rule.unless else ""
            return f"{rule.shown} needs {first}{instead}"
        uneven = _uneven(rule, _number(value), shape.expert_parallel, experts)
        if uneven is not None:
            return f"{rule.shown} {value}: {uneven}"
    return _spread_otherwise(spec, shape, version)


def _spread_otherwise(spec: EngineSpec, shape: Shape, version: str) -> str | None:
    """Why an option by which the engine spreads experts over the whole stage contradicts the shape, or None."""
    whole = shape.domain_group_gpus
    for rule in option_rules(shape.engine, version) if spec.args and shape.expert_parallel != whole else ():
        value = values_given(spec.args, (rule.option,), {}).get(rule.option, "") if rule.spans else ""
        if value not in _OFF | {"none"}:
            told = rule.shown if value == "true" else f"{rule.shown} {value:.60}"
            return (
                f"{told} spreads experts over all GPUs of a stage: use spec.shape.expertParallel {whole}, or remove it"
            )
    return None


def _uneven(rule: OptionRule, number: int, groups: int, experts: int | None) -> str | None:
    """Why experts and their copies do not spread evenly over EP, or None; `experts` is None if not known."""
    if rule.experts and experts is not None and (experts + number) % groups:
        return f"{experts} experts and these do not spread over EP {groups}"
    if rule.slots and (number % groups or number < (experts or 0)):
        least = f" and at least {experts}, the experts" if experts is not None else ""
        return f"it has to be a multiple of EP {groups}{least}"
    return None


def value_of(args: tuple[str, ...], option: str) -> str:
    """The last value of an option; `--settings.key` is also found in `--settings` given as JSON. Empty if not given.

    `--set.key` is found in `--set key=value`.
    """
    parent, _, key = option.partition(".")
    found = given(args, option.replace("_", "-"))
    if found or not key:
        return found
    if parent == SET:
        return settings_of(args).get(key, "")
    try:
        settings = json.loads(given(args, parent) or "{}")
    except (ValueError, RecursionError):
        return ""  # the engine reports what is wrong with it
    value = settings.get(key) if isinstance(settings, dict) else None
    return str(value) if isinstance(value, str | int) else ""


def _unknown(spec: EngineSpec, engine: EngineName, version: str) -> Iterator[tuple[str, str]]:
    """Pairs of an option that the release lacks (or an option with a value that it refuses) and what is allowed."""
    options = engine_options(_TABLES[engine])
    for option in dict.fromkeys(rule.option.partition(".")[0] for rule in option_rules(engine, version)):
        known = options.of(version) if option != SET else None  # `--set` is for the file that Weft writes
        if known is not None and option not in known and given(spec.args, option) not in _OFF:
            yield option, f"it is {options.elsewhere(option, version)}, use another version or remove it"
    for rule, value in _used(spec, engine, version):
        if rule.values and value not in rule.values:
            yield f"{rule.shown} {value:.60}", f"use {', '.join(rule.values[:-1])} or {rule.values[-1]}"


def _alone(spec: EngineSpec, shape: Shape, version: str) -> str | None:
    """Why an option does nothing without another one, or None."""
    vendor = load().accelerator(shape.accelerator).vendor
    for rule, _ in _used(spec, shape.engine, version):
        if not rule.beside or rule.vendor not in {"", vendor}:
            continue
        told = value_of(spec.args, rule.beside) or dict(spec.env).get(rule.variable, "")
        if told in _OFF | {"none"} or (rule.allowed and told not in rule.allowed):
            values = f" {' or '.join(rule.allowed)}" if rule.allowed else ""
            variable = f" or {rule.variable} in spec.engine.env" if rule.variable else ""
            return (
                f"{rule.shown} needs {as_written(rule.beside)}{variable} beside it{f': use{values}' if values else ''}"
            )
    return None


def _used(spec: EngineSpec, engine: EngineName, version: str) -> Iterator[tuple[OptionRule, str]]:
    """Rules of the options that are turned on, with their values."""
    for rule in option_rules(engine, version) if spec.args else ():
        value = value_of(spec.args, rule.option)
        if value not in _OFF:
            yield rule, value


def _says(spec: EngineSpec, option: str) -> bool:
    return value_of(spec.args, option) not in _OFF | {"none"}


def _number(value: str) -> int:
    return int(value) if value.isdecimal() else 0
