"""Shapes + fabric -> assignments: best fit of slots into NVLink domains, whole replicas only.

Where a replica goes. `search`: the slot that it gets. `eligibility`: which nodes its pool may use at all, by `taints`
    and other claims. `rooms`: what spares leave of each domain. `nearness` and `zones`: how far domains are apart.
    `sharing`: who needs a ComputeDomain. `recheck`: whether a slot still holds just before pods are released.
Who leaves. `victims`: which replicas go first when a pool shrinks. `repacking`: which move so that another one fits.
    `clearing`: which would have to leave a domain for that.
What is told. `refusal`: why a replica fits nowhere. `comparison`: why it went to no other domain. `lacking`: what
    nodes lack besides GPUs.
What is free. `freemap`: while a pass gives it out. `tally`: how many replicas each domain holds. `room`: how many of
    each size. `suppliers`: what a pool could use whatever is free.
`names`: the order of names with numbers in them.
"""

from __future__ import annotations

from weft.placement.clearing import Movable, Requirements
from weft.placement.comparison import Comparison, compare
from weft.placement.eligibility import EligibleDomain, amount_of, eligible_domains
from weft.placement.freemap import FreeMap, Hold, spares_of
from weft.placement.lacking import lacking_besides_gpus
from weft.placement.names import natural
from weft.placement.recheck import domain_lost, leaves_domain, slot_is_still_free, slot_lost
from weft.placement.refusal import PlacementRefusal
from weft.placement.repacking import Move, Repacking, repack, still_opens
from weft.placement.room import by_accelerator, rooms_of
from weft.placement.rooms import spare_nodes
from weft.placement.search import ALONE, Neighbours, Slot, find_slot
from weft.placement.sharing import cliques_of, compute_domain_of
from weft.placement.suppliers import LASTING, Supplier, is_selected, left_out, no_supplier, suppliers
from weft.placement.victims import Departure, choose_victims

__all__ = [
    "ALONE",
    "LASTING",
    "Comparison",
    "Departure",
    "EligibleDomain",
    "FreeMap",
    "Hold",
    "Movable",
    "Move",
    "Neighbours",
    "PlacementRefusal",
    "Repacking",
    "Requirements",
    "Slot",
    "Supplier",
    "amount_of",
    "by_accelerator",
    "choose_victims",
    "cliques_of",
    "compare",
    "compute_domain_of",
    "domain_lost",
    "eligible_domains",
    "find_slot",
    "is_selected",
    "lacking_besides_gpus",
    "leaves_domain",
    "left_out",
    "natural",
    "no_supplier",
    "repack",
    "rooms_of",
    "slot_is_still_free",
    "slot_lost",
    "spare_nodes",
    "spares_of",
    "still_opens",
    "suppliers",
]
