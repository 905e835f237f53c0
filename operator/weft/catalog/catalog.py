"""The catalog: accelerators, models and engines as frozen values, read once from this package's YAML files."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from weft.catalog.limits import numbers
from weft.catalog.names import named_by_first_words, nearest, perhaps
from weft.catalog.uncertainty import OFFLINE
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, EngineRelease

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog.drafting import DraftingMethod
    from weft.catalog.efficiency import Coefficient, Efficiency
    from weft.catalog.limits import EngineLimits
    from weft.catalog.notices import ReclaimTaint
    from weft.catalog.performance import EnginePerformance
    from weft.catalog.starting import StartConstants
    from weft.catalog.uncertainty import Spread, Uncertainty
    from weft.domain.hardware import Accelerator, Precision
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape

_SHARED_SUFFIX = re.compile(r"(-MIG-.+)?(-SHARED)?$")
_VERSION = re.compile(r"^v?[0-9]{1,4}\.[0-9]{1,4}(\.[0-9A-Za-z.+-]{1,40})?$")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine: default version, known range, images by vendor, its router's image and its limits.

    `oldest` and `newest` have as many numbers as its releases differ in: major and minor, for SGLang the third too.
    `sidecar_image` forwards requests from a Gateway to both halves of a split, empty if there is none.

    The `automatic` engines are the candidates if a pool names none.
    """

    name: EngineName
    version: str
    oldest: tuple[int, ...]
    newest: tuple[int, ...]
    images: tuple[tuple[str, str], ...]
    router_image: str
    limits: EngineLimits
    automatic: bool = False
    sidecar_image: str = ""

    def knows(self, version: str) -> bool:
        """Whether it is a version in the known range."""
        found = numbers(version) if _VERSION.match(version) else None
        if found is None:
            return False
        return self.oldest <= found[: len(self.oldest)] and found[: len(self.newest)] <= self.newest

    @property
    def range(self) -> str:
        """The known versions in words: 0.10 to 0.33."""
        return f"{'.'.join(map(str, self.oldest))} to {'.'.join(map(str, self.newest))}"


@dataclass(frozen=True)
class KnownModel:
    """A model by its names; `parameters` is the published count. `read` builds its architecture on demand."""

    model_id: str
    aliases: tuple[str, ...]
    parameters: int
    read: Callable[[], Architecture]

    @cached_property
    def architecture(self) -> Architecture:
        """What the performance model needs of the model."""
        return self.read()

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of the model, in lower case, with and without the organisation."""
        return frozenset(chain(*map(_with_and_without_organisation, (self.model_id, *self.aliases))))

    def spelt_out(self, name: str) -> str:
        """A name of the model as its publisher writes it, with the organisation."""
        wanted = name.casefold()
        spellings = (self.model_id, *self.aliases)
        return next((each for each in spellings if wanted in _with_and_without_organisation(each)), self.model_id)


def _with_and_without_organisation(name: str) -> tuple[str, str]:
    """The name in lower case, with and without the organisation."""
    plain = name.casefold()
    return plain, plain.rpartition("/")[2]


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All facts. Compared and hashed by identity, so that answers may be remembered per catalog."""

    accelerators: tuple[Accelerator, ...]
    models: tuple[KnownModel, ...]
    engines: tuple[EngineFacts, ...]
    performance: dict[EngineName, EnginePerformance]
    coefficients: dict[str, Coefficient]
    uncertainty: Uncertainty
    drafting: dict[str, DraftingMethod]
    starting: StartConstants
    reclaim_taints: dict[str, ReclaimTaint]

    def accelerator(self, name: str) -> Accelerator:
        """The accelerator with a name, in any case; raises `Invalid` (NoAccelerator) that lists the known names."""
        found = _accelerator_of_name(self, name)
        if found is not None:
            return found
        raise Invalid(Reason.NoAccelerator, f"accelerator {name!r:.60} {self._lacking_accelerator(name)}")

    def accelerator_of_product(self, label: str) -> Accelerator | None:
        """The accelerator of a node label; a `-SHARED` or `-MIG-...` suffix is ignored."""
        return _accelerator_of_product(self, label)

    def accelerator_of_machine(self, kind: str) -> Accelerator | None:
        """The accelerator of a cloud machine type (`p5.48xlarge`); None if unknown."""
        return _accelerator_of_machine(self, kind)

    def architecture(self, model_id: str) -> Architecture | None:
        """A known model by its id or an alias, in any case; the organisation may be left out. None if unknown."""
        known = self.known_model(model_id)
        return known.architecture if known is not None else None

    def known_model(self, model_id: str) -> KnownModel | None:
        """The catalog entry of a model name; None if unknown."""
        wanted = model_id.casefold()
        return next((model for model in self.models if wanted in model.names), None)

    def _lacking_accelerator(self, name: str) -> str:
        labelled = self.accelerator_of_product(name)
        spellings = [(spelling, each.name) for each in self.accelerators for spelling in (each.name, *each.products)]
        begun = named_by_first_words(name, spellings)
        meant = (labelled.name,) if labelled is not None else begun or nearest(name, spellings)
        return f"is not in the catalog{perhaps(meant)}; it has {', '.join(each.name for each in self.accelerators)}"

    def unknown_model(self, model_id: str) -> str:
        """The sentence about a model that is not in the catalog, with similar names."""
        return f"model {model_id!r:.120} is not in the catalog{perhaps(_models_like(self, model_id))}"

    def engine(self, engine: EngineName) -> EngineFacts:
        """The facts of an engine."""
        return next(facts for facts in self.engines if facts.name is engine)

    @property
    def automatic(self) -> tuple[EngineName, ...]:
        """The engines to choose from if a pool names none, the default one first."""
        return tuple(facts.name for facts in self.engines if facts.automatic)

    def release(self, engine: EngineName, version: str | None, vendor: str, image: str | None = None) -> EngineRelease:
        """An engine at a version (None: the default) with its image for a vendor's accelerators, or the user's.

        Raises `Invalid` (EngineUnsupported) for a version outside the known range or a vendor without an image.
        """
        facts = self.engine(engine)
        text = (version or facts.version).removeprefix("v")
        _check_version(facts, text)
        image = image or dict(facts.images).get(vendor, "").format(version=text)
        if not image:
            raise Invalid(Reason.EngineUnsupported, f"{engine.value} has no image for {vendor} accelerators")
        return EngineRelease(engine, text, image)

    def precisions(self, accelerator: Accelerator, engine: EngineName) -> tuple[Precision, ...]:
        """The precisions that an engine serves on an accelerator: its generation's, if this chip computes in them."""
        computed = {precision for precision, _ in accelerator.flops}
        served = self.performance[engine].serves.get(accelerator.generation, ())
        return tuple(precision for precision in served if precision in computed)

    def efficiency(
        self, accelerator: Accelerator, engine: EngineName, precision: Precision, release: str | None = None
    ) -> Efficiency:
        """Coefficients for the performance model, of a release (a version or the month `YYYY-MM`; None: the present).

        Raises `Invalid` (PrecisionUnsupported) for a precision that is not served.
        """
        if precision not in self.precisions(accelerator, engine):
            known = ", ".join(each.value for each in self.precisions(accelerator, engine)) or "nothing"
            raise Invalid(
                Reason.PrecisionUnsupported,
                f"{engine.value} does not serve {precision.value} on {accelerator.name}; it serves {known} there",
            )
        of_generation = _efficiency(self, accelerator.generation, engine, precision, release)
        return of_generation.at_tensor_rate(accelerator.tensor_rate)

    def efficiency_for(self, architecture: Architecture, engine: EngineName, usual: Efficiency) -> Efficiency:
        """Coefficients for a model, for whose family an engine may capture other graphs than it usually does.

        It does so as if a user asked for them, whatever number of sequences runs at once.
        """
        tokens = self.performance[engine].graphs_of_families.get(architecture.family)
        return usual if tokens is None else _capturing(usual, float(tokens))

    def spread(
        self, architecture: Architecture, shape: Shape, accelerator: Accelerator, release: str | None = None
    ) -> Spread:
        """How far predictions for a replica are off, in four of five cases, with a release of its engine.

        The release is a version or the month of a measurement; None: the default version.
        """
        return _spread(
            self, architecture, _combination(shape, accelerator), release or self.engine(shape.engine).version
        )

    def offline_spread(
        self, architecture: Architecture, shape: Shape, accelerator: Accelerator, release: str | None = None
    ) -> Spread:
        """As `spread`, for requests that all arrive at once."""
        combination, version = _combination(shape, accelerator), release or self.engine(shape.engine).version
        return self.uncertainty.spread(architecture, combination, version, OFFLINE)


def _combination(shape: Shape, accelerator: Accelerator) -> tuple[str, ...]:
    return accelerator.generation, shape.engine.value, shape.precision.value


@functools.lru_cache(maxsize=256)
def _accelerator_of_name(catalog: Catalog, name: str) -> Accelerator | None:
    wanted = name.casefold()
    return next((each for each in catalog.accelerators if each.name.casefold() == wanted), None)


@functools.lru_cache(maxsize=256)
def _efficiency(
    catalog: Catalog, generation: str, engine: EngineName, precision: Precision, release: str | None
) -> Efficiency:
    return catalog.performance[engine].efficiency(catalog.coefficients, generation, engine, precision, release)


@functools.lru_cache(maxsize=256)
def _capturing(usual: Efficiency, tokens: float) -> Efficiency:
    """Cached, as coefficients that are the same object compare quickly."""
    return replace(usual, graph_tokens=tokens, graph_sequences=math.inf)


@functools.lru_cache(maxsize=1024)
def _spread(catalog: Catalog, architecture: Architecture, combination: tuple[str, ...], release: str) -> Spread:
    """Cached, as every prediction of a capacity asks for it and there are few combinations."""
    return catalog.uncertainty.spread(architecture, combination, release)


@functools.lru_cache(maxsize=256)
def _models_like(catalog: Catalog, model_id: str) -> tuple[str, ...]:
    """Model names like this one; cached, as every pass asks while a pool names an unknown model."""
    full = [name for model in catalog.models for name in (model.model_id, *model.aliases)]
    return nearest(model_id, ((spelling, name) for name in full for spelling in (name, name.rpartition("/")[2])))


@functools.lru_cache(maxsize=1024)
def _accelerator_of_product(catalog: Catalog, label: str) -> Accelerator | None:
    """The accelerator of a node label; cached, as every pass asks for every node and there are few products."""
    product = _SHARED_SUFFIX.sub("", label.strip()).casefold()
    return next((each for each in catalog.accelerators if _names(each, product)), None)


@functools.lru_cache(maxsize=1024)
def _accelerator_of_machine(catalog: Catalog, kind: str) -> Accelerator | None:
    """The accelerator of a machine type, cached too; SageMaker HyperPod prefixes AWS' names with `ml.`."""
    machine = kind.casefold().removeprefix("ml.")
    return next((each for each in catalog.accelerators if _is_one_of(each.machines, machine)), None)


def _names(accelerator: Accelerator, product: str) -> bool:
    return _is_one_of(accelerator.products, product)


def _is_one_of(names: tuple[str, ...], wanted: str) -> bool:
    return any(
        wanted.startswith(known[:-1].casefold()) if known.endswith("*") else wanted == known.casefold()
        for known in names
    )


def _check_version(facts: EngineFacts, version: str) -> None:
    if _VERSION.match(version) is None:
        raise Invalid(
            Reason.EngineUnsupported,
            f"spec.engine.version {version!r:.60} is not a version like {facts.version}; known are {facts.range}",
        )
    if not facts.knows(version):
        raise Invalid(Reason.EngineUnsupported, f"{facts.name.value} {version} is not known; known are {facts.range}")
