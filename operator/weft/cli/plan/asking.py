"""Turns `weft plan --model` and its options (rate, lengths and targets) into an InferencePool."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.reading import load_documents, shown
from weft.cli.telling.terminal import working
from weft.domain.labels import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

_LENGTH = re.compile(r"(?P<mean>[0-9]+)(:(?P<p95>[0-9]+))?")
_USUAL = ("1", "1024", "256")  # default requests per second, prompt tokens and answer tokens
_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ModelWishes:
    """SLO targets such as `p95=500ms`, and the accelerators and precisions that may be used; empty: any."""

    ttft: tuple[str, ...] = ()
    tpot: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options as they were typed. Lengths are `MEAN` or `MEAN:P95` in tokens.

    `config` is the path of the `config.json` of a model that Weft does not know.
    """

    model: str
    rate: str
    input_tokens: str
    output_tokens: str
    wishes: ModelWishes
    config: str | None = None

    @classmethod
    def of(
        cls, model: str, load: tuple[str | None, str | None, str | None], wishes: ModelWishes, config: str | None
    ) -> ModelOptions:
        """Fill in defaults for a rate and lengths that are None; an empty text is kept, and refused later."""
        rate, prompt, answer = (usual if given is None else given for given, usual in zip(load, _USUAL, strict=True))
        return cls(model, rate, prompt, answer, wishes, config)


def documents_of(files: tuple[str, ...], asked: ModelOptions | None) -> list[dict[str, Any]]:
    """Return the resources to plan: those of the files, or the one that the options describe."""
    if asked is not None:
        return [as_document(asked if asked.config is not None else _of_a_known_model(asked))]
    with working(f"reading {', '.join(map(shown, files))}"):
        return [body for file in files for body in load_documents(file)]


def _of_a_known_model(asked: ModelOptions) -> ModelOptions:
    """Replace the model's name by its full one, as an exported resource takes the weights from that repository."""
    from weft.catalog import load

    catalog = load()
    known = catalog.known_model(asked.model)
    if known is None and asked.model:
        told = "give the config.json from its repository with --config FILE"
        raise CommandFailure(f"--model: {catalog.unknown_model(asked.model)}; {told}")
    return asked if known is None else replace(asked, model=known.spelt_out(asked.model))


def as_document(asked: ModelOptions) -> dict[str, Any]:
    """Make the InferencePool; the resource's own checks report what is wrong with a value, by its field."""
    slo = {
        name: _targets(name, given)
        for name, given in (("ttft", asked.wishes.ttft), ("tpot", asked.wishes.tpot))
        if given
    }
    model: dict[str, Any] = {"id": asked.model}
    if asked.wishes.precisions:
        model["precisions"] = [each.upper() for each in asked.wishes.precisions]
    if asked.config is not None:
        model["config"] = {"inline": _config(asked.config)}
    spec: dict[str, Any] = {
        "model": model,
        "workload": {
            "requestsPerSecond": asked.rate,
            "inputTokens": _length("--isl", asked.input_tokens),
            "outputTokens": _length("--osl", asked.output_tokens),
        },
        "scaling": {"maxReplicas": 1000},
    }
    if slo:
        spec["slo"] = slo
    if asked.wishes.accelerators:
        spec["placement"] = {"accelerators": list(asked.wishes.accelerators)}
    return {"apiVersion": API_VERSION, "kind": "InferencePool", "metadata": {"name": _named(asked.model)}, "spec": spec}


def _config(file: str) -> dict[str, Any]:
    (config, *more) = load_documents(file, "a config.json") or [{}]
    if more or not config:
        raise CommandFailure(f"--config {shown(file)} must hold one JSON object, a config.json")
    wrong = _not_a_number(config)
    if wrong is not None:
        raise CommandFailure(f"--config {shown(file)}: {wrong}, which JSON does not have: write a number")
    return config


def _not_a_number(config: dict[str, Any]) -> str | None:
    """Return `rope_scaling.factor is nan`, which Python's reader takes, or None; a loop, as nesting may be endless."""
    waiting: list[tuple[str, object]] = [("", config)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path} is {value}"
        inside: Iterable[tuple[object, object]] = ()
        if isinstance(value, dict | list) and id(value) not in seen:
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            seen.add(id(value))
        waiting += [(f"{path}.{name}".lstrip("."), each) for name, each in inside]
    return None


def _length(option: str, text: str) -> dict[str, int]:
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise CommandFailure(f"{option} {text!r:.60} must be a mean, or MEAN:P95, in tokens, such as 2000:6000")
    return {name: int(value) for name, value in match.groupdict().items() if value}


def _targets(option: str, given: tuple[str, ...]) -> dict[str, str]:
    targets = dict(text.partition("=")[::2] for text in given)
    wrong = next((text for text in given if "=" not in text), None)
    if wrong is not None:
        raise CommandFailure(f"--{option} {wrong!r:.60} must be PERCENTILE=DURATION, such as p95=500ms")
    if len(targets) < len(given):
        raise CommandFailure(f"--{option} names a percentile twice, {', '.join(given):.60}: give each once")
    return targets


def _named(model: str) -> str:
    """Make a valid Kubernetes name from the last part of the model's name."""
    return _NAME.sub("-", model.rpartition("/")[2].lower()).strip("-")[:50].strip("-") or "model"
