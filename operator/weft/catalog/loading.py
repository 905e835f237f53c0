"""The package's YAML files as a `Catalog`. They are ours: a mistake in them is a bug, and the tests load them all."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from weft.catalog.catalog import Catalog, EngineFacts, KnownModel
from weft.catalog.config_json import architecture_from_config
from weft.catalog.efficiency import Efficiency
from weft.domain.hardware import Accelerator, Precision
from weft.domain.shape import EngineName
from weft.domain.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog.catalog import EfficiencyKey

_GIGA = 1e9
_TERA = 1e12
_MICRO = 1e-6
_MILLI = 1e-3


@functools.cache
def load() -> Catalog:
    """The catalog that this version of Weft ships. Read once per process."""
    folder = resources.files("weft.catalog")
    engines = _yaml(folder.joinpath("engines.yaml").read_text(encoding="utf-8"))
    accelerators = _yaml(folder.joinpath("accelerators.yaml").read_text(encoding="utf-8"))
    files = sorted((each for each in folder.joinpath("models").iterdir() if each.name.endswith(".yaml")), key=str)
    return Catalog(
        accelerators=tuple(_accelerator(name, facts) for name, facts in accelerators.items()),
        models=tuple(_model(_yaml(file.read_text(encoding="utf-8"))) for file in files),
        engines=tuple(_engine(EngineName(name), facts) for name, facts in engines.items()),
        efficiencies=dict(pair for name, facts in engines.items() for pair in _efficiencies(EngineName(name), facts)),
    )


def _yaml(text: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML was built with it
    loaded: dict[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders
    return loaded


def _accelerator(name: str, facts: dict[str, Any]) -> Accelerator:
    return Accelerator(
        name=name,
        vendor=facts["vendor"],
        generation=facts["generation"],
        resource=facts["resource"],
        products=tuple(facts["products"]),
        memory_bytes=facts["memoryMiB"] * MIB,
        memory_bandwidth=facts["terabytes"] * _TERA,
        flops=tuple((Precision(precision), value * _TERA) for precision, value in facts["teraflops"].items()),
        scale_up_bandwidth=facts["scaleUp"] * _GIGA,
        network_bandwidth=facts["scaleOut"] * _GIGA,
        domain_gpus=facts["domain"],
        gpus_per_node=facts["node"],
        cost=facts["cost"],
    )


def _model(facts: dict[str, Any]) -> KnownModel:
    architecture = architecture_from_config(facts["id"], json.dumps(facts["config"]))
    return KnownModel(architecture, tuple(facts["aliases"]), facts["parameters"])


def _engine(name: EngineName, facts: dict[str, Any]) -> EngineFacts:
    oldest, newest = (tuple(map(int, text.split("."))) for text in facts["supported"])
    return EngineFacts(
        name=name,
        version=facts["version"],
        oldest=(oldest[0], oldest[1]),
        newest=(newest[0], newest[1]),
        images=tuple(facts["images"].items()),
        router_image=facts["router"],
    )


def _efficiencies(engine: EngineName, facts: dict[str, Any]) -> Iterator[tuple[EfficiencyKey, Efficiency]]:
    for accelerator, here in facts["accelerators"].items():
        for precision, fractions in here["precisions"].items():
            yield (accelerator, engine, Precision(precision)), _efficiency(here, fractions, facts["memory_fraction"])


def _efficiency(here: dict[str, Any], fractions: dict[str, float], memory_fraction: float) -> Efficiency:
    return Efficiency(
        compute=fractions["compute"],
        memory=fractions["memory"],
        attention=here["attention"],
        layer_seconds=here["layer_us"] * _MICRO,
        moe_layer_seconds=here["moe_layer_us"] * _MICRO,
        step_seconds=here["step_ms"] * _MILLI,
        sequence_seconds=here["sequence_us"] * _MICRO,
        request_seconds=here["request_ms"] * _MILLI,
        collective_seconds=here["collective_us"] * _MICRO,
        collective_bandwidth=here["collective_bandwidth"],
        exchange_seconds=here["exchange_us"] * _MICRO,
        exchange_bandwidth=here["exchange_bandwidth"],
        reserve_bytes=here["reserve_gib"] * GIB,
        memory_fraction=memory_fraction,
        batched_tokens=here["batched_tokens"],
        sequences=here["sequences"],
    )
