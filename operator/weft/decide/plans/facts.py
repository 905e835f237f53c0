"""What a shape is chosen from: the hardware there is, the release that is kept, and the request made of both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Reason
from weft.engines.images.tags import wished_version
from weft.placement import no_supplier, suppliers
from weft.shaping import (
    ShapeRequest,
    Supply,
    refuse_a_host_cache_that_keeps_nothing,
    refuse_drafting_without_heads,
    refuse_lengths,
    resolve_architecture,
)

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.fabric import Fabric
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.spec import EngineSpec, PlacementSpec, PoolSpec

# Of one NVLink domain: a node that tells of more is wrong, and shapes of every size up to that are looked at.
MOST_GPUS = 4096


@dataclass(frozen=True, slots=True)
class Facts:
    """What planning reads beside the pool itself. `supplies` keeps what was found for each placement in this pass.

    `now` is epoch seconds, or 0 where nothing runs whose shape may have changed lately.
    """

    fabric: Fabric
    catalog: Catalog
    supplies: dict[PlacementSpec, tuple[Supply, ...]] = field(default_factory=dict, compare=False)
    now: float = 0.0

    def supplies_for(self, placement: PlacementSpec) -> tuple[Supply, ...]:
        """What a pool with this placement could use, free or not.

        Raises `Invalid` (SpecInvalid) for a name that the catalog lacks, `Blocked` (NoAccelerator) for nothing.
        """
        self.refuse_unknown(placement)
        found = self.supplied(placement)
        if not found:
            why = no_supplier(self.fabric, placement)
            raise Blocked(why.reason, why.message)
        return found

    def supplied(self, placement: PlacementSpec) -> tuple[Supply, ...]:
        """What a pool with this placement could use, free or not; the names in it may be unknown."""
        found = self.supplies.get(placement)
        if found is None:
            found = self.supplies[placement] = tuple(
                Supply(
                    each.accelerator,
                    each.memory_bytes,
                    min(domain, MOST_GPUS),
                    min(node, MOST_GPUS),
                    each.shared,
                    alone=_is_alone(each.accelerator, self.fabric),
                )
                for each in suppliers(self.fabric, placement)
                for node, domain in ((each.gpus_per_node, each.largest_domain_gpus), *each.smaller)
            )
        return found

    def refuse_unknown(self, placement: PlacementSpec) -> None:
        """Raise `Invalid` (SpecInvalid) for an accelerator that the catalog lacks."""
        for name in placement.accelerators:
            try:
                self.catalog.accelerator(name)
            except Invalid as error:
                raise Invalid(Reason.SpecInvalid, f"spec.placement.accelerators: {error.message}") from None


def kept_engine(wish: EngineSpec, release: EngineRelease | None, catalog: Catalog) -> EngineRelease | None:
    """The release in status as long as the spec asks for no other: an operator upgrade changes no image.

    The tag of an image asks for one too. An image that only the spec could have named goes with the spec's wish for it;
    the version stays.
    """
    if release is None or wish.name not in {None, release.name}:
        return None
    if wished_version(wish, release.name) not in {None, release.version}:
        return None
    if wish.image is not None:
        return replace(release, image=wish.image)
    known = [image.format(version=release.version) for _, image in catalog.engine(release.name).images]
    return release if release.image in known else replace(release, image=known[0])


def shape_request(spec: PoolSpec, facts: Facts, incumbent: Plan | None, engine: EngineRelease | None) -> ShapeRequest:
    """What a shape is chosen from.

    Raises `Invalid` for a model or an accelerator that nobody knows, for lengths that the model does not take, for host
    memory too small for one prompt and for drafting by heads that the model lacks, and `Blocked` where there is no
    hardware.
    """
    architecture = resolve_architecture(spec.model, facts.catalog)
    refuse_lengths(spec, architecture)
    refuse_a_host_cache_that_keeps_nothing(spec, architecture)
    refuse_drafting_without_heads(spec.engine, architecture, facts.catalog)
    return ShapeRequest(
        spec=spec,
        architecture=architecture,
        workload=spec.workload,
        supplies=facts.supplies_for(spec.placement),
        incumbent=incumbent,
        engine=engine,
    )


def _is_alone(accelerator: str, fabric: Fabric) -> bool:
    """Whether fewer than two NVLink domains have this accelerator, so that nothing can spread over them."""
    found = (domain for domain in fabric.domains if domain.accelerator == accelerator)
    return len(tuple(islice(found, 2))) < 2  # noqa: PLR2004 - a second one
