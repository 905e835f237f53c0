"""Which replicas need a ComputeDomain: those whose pods share memory over NVLink, with each other or the other half."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.domain.status import ComputeDomain
from weft.fabric.membership import clique_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.fabric import Fabric


def compute_domain_of(nodes: Sequence[str], fabric: Fabric) -> ComputeDomain | None:
    """The ComputeDomain of a replica with two pods or more in one NVLink domain where a driver forms them, else None.

    A replica whose every stage has a rack of its own needs none. One whose stages have several nodes in each of several
    racks needs one all the same: the driver keeps the cliques apart inside it.
    """
    known = fabric.nodes()
    places = [known[name] for name in nodes if name in known]
    together = Counter(node.domain for node in places if node.shares_memory)
    if len(places) < len(nodes) or max(together.values(), default=0) < 2:  # noqa: PLR2004 - two share
        return None
    return ComputeDomain(cliques_of(nodes, fabric))


def cliques_of(nodes: Sequence[str], fabric: Fabric) -> tuple[str, ...]:
    """The NVLink clique in the label of each node; empty where it has none."""
    known = fabric.nodes()
    return tuple(clique_of(dict(known[name].labels)) if name in known else "" for name in nodes)
