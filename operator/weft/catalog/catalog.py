"""The catalog: accelerators, models and engines as frozen values. Read once from this package's own YAML files."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, EngineRelease

if TYPE_CHECKING:
    from weft.catalog.efficiency import Efficiency
    from weft.domain.hardware import Accelerator, Precision
    from weft.domain.model import Architecture

_SHARED_SUFFIX = re.compile(r"(-MIG-.+)?(-SHARED)?$")
_VERSION = re.compile(r"^v?([0-9]{1,4})\.([0-9]{1,4})(\.[0-9A-Za-z.+-]{1,40})?$")

EfficiencyKey = tuple[str, EngineName, "Precision"]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine: default version, the (major, minor) range that we know, images by vendor and its router's image."""

    name: EngineName
    version: str
    oldest: tuple[int, int]
    newest: tuple[int, int]
    images: tuple[tuple[str, str], ...]
    router_image: str


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model by its names; `parameters` is the published count."""

    architecture: Architecture
    aliases: tuple[str, ...]
    parameters: int


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All facts. Compared and hashed by identity, so that answers may be remembered per catalog."""

    accelerators: tuple[Accelerator, ...]
    models: tuple[KnownModel, ...]
    engines: tuple[EngineFacts, ...]
    efficiencies: dict[EfficiencyKey, Efficiency]

    def accelerator(self, name: str) -> Accelerator:
        """The accelerator of a name, whatever its case; raises `Invalid` (NoAccelerator) with the names there are."""
        for accelerator in self.accelerators:
            if accelerator.name.casefold() == name.casefold():
                return accelerator
        names = ", ".join(accelerator.name for accelerator in self.accelerators)
        raise Invalid(Reason.NoAccelerator, f"accelerator {name!r} is not in the catalog, which has {names}")

    def accelerator_of_product(self, label: str) -> Accelerator | None:
        """The accelerator that a node label names; a `-SHARED` or `-MIG-...` ending does not matter here."""
        return _accelerator_of_product(self, label)

    def architecture(self, model_id: str) -> Architecture | None:
        """A known model by its id or an alias, whatever its case; the organisation may be left out."""
        wanted = model_id.casefold()
        for model in self.models:
            names = [name.casefold() for name in (model.architecture.model_id, *model.aliases)]
            if wanted in names or wanted in [name.rpartition("/")[2] for name in names]:
                return model.architecture
        return None

    def engine(self, engine: EngineName) -> EngineFacts:
        """Facts of an engine; raises `Invalid` (EngineUnsupported) for one that cannot be rendered yet."""
        for facts in self.engines:
            if facts.name is engine:
                return facts
        raise Invalid(
            Reason.EngineUnsupported,
            f"engine {engine.value} is known but its rendering comes later; set engine.name VLLM or Auto",
        )

    def release(self, engine: EngineName, version: str | None, vendor: str) -> EngineRelease:
        """An engine at a version (None: the default) with its image for a vendor's accelerators.

        Raises `Invalid` (EngineUnsupported) for a version outside of the known range or a vendor without an image.
        """
        facts = self.engine(engine)
        text = (version or facts.version).removeprefix("v")
        _check_version(facts, text)
        image = dict(facts.images).get(vendor)
        if image is None:
            raise Invalid(Reason.EngineUnsupported, f"{engine.value} has no image for {vendor} accelerators")
        return EngineRelease(engine, text, image.format(version=text))

    def precisions(self, accelerator: Accelerator, engine: EngineName) -> tuple[Precision, ...]:
        """The precisions that an engine serves on an accelerator."""
        return tuple(p for name, e, p in self.efficiencies if name == accelerator.name and e is engine)

    def efficiency(self, accelerator: Accelerator, engine: EngineName, precision: Precision) -> Efficiency:
        """Coefficients for the performance model; raises `Invalid` (PrecisionUnsupported) for what is not served."""
        found = self.efficiencies.get((accelerator.name, engine, precision))
        if found is None:
            known = ", ".join(each.value for each in self.precisions(accelerator, engine)) or "nothing"
            raise Invalid(
                Reason.PrecisionUnsupported,
                f"{engine.value} does not serve {precision.value} on {accelerator.name}; it serves {known} there",
            )
        return found


@functools.lru_cache(maxsize=1024)
def _accelerator_of_product(catalog: Catalog, label: str) -> Accelerator | None:
    """Every node of a fabric asks in every pass, and there are few products."""
    product = _SHARED_SUFFIX.sub("", label.strip()).casefold()
    return next((each for each in catalog.accelerators if _names(each, product)), None)


def _names(accelerator: Accelerator, product: str) -> bool:
    return any(
        product.startswith(known[:-1].casefold()) if known.endswith("*") else product == known.casefold()
        for known in accelerator.products
    )


def _check_version(facts: EngineFacts, version: str) -> None:
    match = _VERSION.match(version)
    known = f"{'.'.join(map(str, facts.oldest))} to {'.'.join(map(str, facts.newest))}"
    if match is None:
        raise Invalid(
            Reason.EngineUnsupported,
            f"engine.version {version!r:.60} is not a version like {facts.version}; known are {known}",
        )
    if not facts.oldest <= (int(match[1]), int(match[2])) <= facts.newest:
        raise Invalid(Reason.EngineUnsupported, f"{facts.name.value} {version} is not known; known are {known}")
