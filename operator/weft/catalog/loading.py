"""Load the package's YAML files as a `Catalog`. They are ours: a mistake in them is a bug, and tests load them all."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from weft.catalog.catalog import Catalog, EngineFacts, KnownModel
from weft.catalog.config_json import architecture_from_config
from weft.catalog.drafting import Drafter, DraftingMethod
from weft.catalog.efficiency import Coefficient
from weft.catalog.limits import EngineLimits, Releases
from weft.catalog.notices import ReclaimTaint
from weft.catalog.performance import CapturedGraphs, EnginePerformance
from weft.catalog.starting import EngineStart, SourceSpeed, StartConstants
from weft.catalog.uncertainty import Faster, Newest, Spread, Uncertainty
from weft.domain.hardware import Accelerator, Precision
from weft.domain.shape import EngineName
from weft.domain.texts.units import MIB

if TYPE_CHECKING:
    from weft.domain.model import Architecture

_GIGA = 1e9
_TERA = 1e12


@functools.cache
def load() -> Catalog:
    """The catalog that this version of Weft ships. Read once per process."""
    folder = resources.files("weft.catalog")
    engines = read_yaml(folder.joinpath("engines.yaml").read_text(encoding="utf-8"))
    accelerators = read_yaml(folder.joinpath("accelerators.yaml").read_text(encoding="utf-8"))
    fitted = read_yaml(folder.joinpath("efficiency.yaml").read_text(encoding="utf-8"))
    drafting = read_yaml(folder.joinpath("speculation.yaml").read_text(encoding="utf-8"))
    starting = read_yaml(folder.joinpath("starting.yaml").read_text(encoding="utf-8"))
    notices = read_yaml(folder.joinpath("notices.yaml").read_text(encoding="utf-8"))
    files = sorted((each for each in folder.joinpath("models").iterdir() if each.name.endswith(".yaml")), key=str)
    return Catalog(
        accelerators=tuple(_accelerator(name, facts) for name, facts in accelerators.items()),
        models=tuple(_model(file.read_text(encoding="utf-8")) for file in files),
        engines=tuple(_engine(EngineName(name), facts) for name, facts in engines.items()),
        performance={EngineName(name): _performance(facts) for name, facts in engines.items()},
        coefficients={name: _coefficient(facts) for name, facts in fitted["coefficients"].items()},
        uncertainty=_uncertainty(fitted["uncertainty"]),
        drafting={name: _drafting(facts) for name, facts in drafting.items()},
        starting=_starting(starting),
        reclaim_taints={key: _reclaim_taint(facts) for key, facts in notices["taints"].items()},
    )


def read_yaml(text: str) -> dict[str, Any]:
    """Parse a document of this package, whose top level is a mapping."""
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
        pcie_bandwidth=facts["pcie"] * _GIGA if "pcie" in facts else None,
        machines=tuple(facts.get("machines", ())),
        largest_board_gpus=facts.get("boards", facts["domain"]),
        tensor_rate=facts.get("tensorRate", 1.0),
    )


def _model(text: str) -> KnownModel:
    """A model of which only the names are parsed now: few architectures are needed, and they are most of the text."""
    facts = read_yaml(text.partition("\nconfig:")[0])
    read = functools.partial(_architecture, text)
    return KnownModel(facts["id"], tuple(facts["aliases"]), facts["parameters"], read)


def _architecture(text: str) -> Architecture:
    facts = read_yaml(text)
    return architecture_from_config(facts["id"], json.dumps(facts["config"]))


def _engine(name: EngineName, facts: dict[str, Any]) -> EngineFacts:
    oldest, newest = (tuple(map(int, text.split("."))) for text in facts["supported"])
    return EngineFacts(
        name=name,
        version=facts["version"],
        oldest=oldest,
        newest=newest,
        images=tuple(facts["images"].items()),
        router_image=facts.get("router", ""),
        sidecar_image=facts.get("sidecar", ""),
        automatic=facts.get("automatic", False),
        limits=_limits(facts["limits"]),
    )


def _limits(facts: dict[str, Any]) -> EngineLimits:
    return EngineLimits(
        group_over_pods=Releases(**facts["group_over_pods"]),
        kv_offload=Releases(**facts["kv_offload"]),
        kv_disk=_releases(facts["kv_disk"]),
        efa=_releases(facts["efa"]),
        nvlink=_releases(facts["nvlink"]),
        precisions=tuple((Precision(name), Releases(**since)) for name, since in facts["precisions"].items()),
        sparse_attention=tuple(facts["sparse_attention"]),
        streams=tuple((scheme, Releases(**since)) for scheme, since in facts["streams"].items()),
        drafting=tuple((method, Releases(**since)) for method, since in facts["drafting"].items()),
    )


def _releases(facts: dict[str, str] | None) -> Releases | None:
    """The releases with an ability; None if no release has it."""
    return None if facts is None else Releases(**facts)


def _performance(facts: dict[str, Any]) -> EnginePerformance:
    serves = {name: tuple(map(Precision, listed)) for name, listed in facts["serves"].items()}
    return EnginePerformance(
        serves=serves,
        early_before=facts["early"]["before"],
        early_until=str(facts["early"]["until"]),
        constants=facts["constants"],
        assumed=facts.get("assumed", {}),
        graphs={name: CapturedGraphs(**known) for name, known in facts.get("graphs", {}).items()},
        graphs_of_families=facts.get("graphs_of_families", {}),
        memory_fraction=facts["memory_fraction"],
        fraction_of_free=facts["fraction_of_free"],
    )


def _coefficient(facts: dict[str, Any]) -> Coefficient:
    return Coefficient(facts["base"], {name: known for name, known in facts.items() if name != "base"})


def _newest(known: dict[str, Any]) -> Newest:
    return Newest(known["version"], known["month"], frozenset(known.get("named", ())))


def _uncertainty(facts: dict[str, Any]) -> Uncertainty:
    return Uncertainty(
        seen={name: _spread(known) for name, known in facts["seen"].items()},
        unseen={name: _spread(known) for name, known in facts["unseen"].items()},
        measured={tuple(words.split()): frozenset(ids) for words, ids in facts["measured"].items()},
        faster=Faster(**facts["faster"]),
        newest={name: _newest(known) for name, known in facts["newest"].items()},
    )


def _spread(facts: dict[str, list[float]]) -> Spread:
    """A spread from pairs of (factor below, factor above)."""
    below, above = ({name: pair[side] for name, pair in facts.items()} for side in (0, 1))
    return Spread(**above, **{f"{name}_below": factor for name, factor in below.items()})


def _drafting(facts: dict[str, Any]) -> DraftingMethod:
    return DraftingMethod(
        acceptance=facts["acceptance"],
        drafter=Drafter(facts["draft"]),
        precision=Precision(facts["precision"]) if "precision" in facts else None,
        vocabulary=facts.get("vocabulary"),
        part=facts.get("part", 1.0),
        families=tuple(facts.get("families", ())),
    )


def _starting(facts: dict[str, Any]) -> StartConstants:
    return StartConstants(
        registry=facts["registry"] * _GIGA,
        loader=facts["loader"] * _GIGA,
        sources={name: _source(known) for name, known in facts["sources"].items()},
        engines={EngineName(name): _engine_start(known) for name, known in facts["engines"].items()},
    )


def _reclaim_taint(facts: dict[str, Any]) -> ReclaimTaint:
    where = tuple((facts.get("where") or {}).items())
    return ReclaimTaint(facts["who"], facts.get("seconds"), facts.get("spot"), where, facts.get("began") == "value")


def _source(facts: dict[str, Any]) -> SourceSpeed:
    fetched, read = (facts.get(name, math.inf) * _GIGA for name in ("fetched", "read"))
    return SourceSpeed(fetched, read, facts.get("streamed", False))


def _engine_start(facts: dict[str, Any]) -> EngineStart:
    return EngineStart(facts["image"] * _GIGA, facts["seconds"], facts["layerSeconds"])
