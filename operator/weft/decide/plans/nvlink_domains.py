"""Which NVLink domains can hold a whole split whose KV goes over NVLink, and plans that are bound to one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.decide.plans.planning import Planned
    from weft.domain.fabric import Fabric, NvlinkDomain
    from weft.domain.spec import SplitSpec
    from weft.domain.status import Assignment


def no_domain_for(spec: SplitSpec, fabric: Fabric) -> Explanation | None:
    """Why no NVLink domain can hold any of a split, whatever runs there; None where one can."""
    if any(map(forms, _allowed(spec, fabric))):
        return None
    which = "no ComputeDomains are formed on them" if any(map(_spans, _allowed(spec, fabric))) else "there is none"
    return Explanation(
        Reason.NoAccelerator,
        "spec.kvTransfer.transport NVLink needs nodes that share an NVLink domain, and NVIDIA's DRA driver on them: "
        f"{which}; use Auto, RDMA or TCP",
    )


def within_its_domain(assignment: Assignment, planned: Planned, fabric: Fabric) -> Planned:
    """The plan, by which a successor of a replica stays in the NVLink domain that its split shares, if any."""
    known = fabric.nodes()
    inside = [known[name].domain for name in assignment.nodes if name in known]
    return planned if not assignment.shared_domain or not inside else within(inside[0], planned)


def within(domain: str, planned: Planned) -> Planned:
    """The plan, all of whose replicas are to be in this NVLink domain."""
    placement = replace(planned.spec.placement, nvlink_domain=domain)
    return changed(planned, spec=changed(planned.spec, placement=placement))


def _allowed(spec: SplitSpec, fabric: Fabric) -> Iterator[NvlinkDomain]:
    sides = spec.prefill.placement, spec.decode.placement
    return (each for each in fabric.domains if all(side.allows(each.accelerator) for side in sides))


def _spans(domain: NvlinkDomain) -> bool:
    return len(domain.nodes) > 1


def forms(domain: NvlinkDomain) -> bool:
    """Whether nodes share the domain, and a ComputeDomain can be formed on one of them."""
    return _spans(domain) and any(node.shares_memory for node in domain.nodes)
