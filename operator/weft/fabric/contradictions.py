"""Notes on sources that disagree: each note names the sources, the disagreement, and which source is used."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.domain.texts.units import MIB
from weft.fabric.devices import PRODUCT_LABELS, accelerator_of_driver
from weft.fabric.members import REMEMBERED, AcceleratorNode, member_of
from weft.fabric.membership import (
    CLIQUE,
    NO_FABRIC,
    NODE,
    RACK_LABELS,
    TOPOGRAPH,
    clique_of,
    rack_of,
    topograph_domain,
)
from weft.fabric.network import NETWORKS
from weft.fabric.parts import MEMORY_MIB, labelled_memory_bytes
from weft.fabric.reach import is_cut, reach_of, whole_gpus
from weft.fabric.unused import INSTANCE_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord
    from weft.domain.reports import TopologyReport
    from weft.fabric.membership import Membership
    from weft.fabric.racks import Apart
    from weft.fabric.reported import Reported

NAMED = 4  # most names that a note lists before it ends with "..."
MEMORY_OFF = 0.15  # drivers reserve some of the nominal memory, but less than this fraction
HOSTNAME = "kubernetes.io/hostname"
CLOUD_RACKS = tuple(label for label in RACK_LABELS if label not in TOPOGRAPH)


def within_a_domain(domain: str, members: Sequence[AcceleratorNode]) -> Iterator[Explanation]:
    """Note what the labels of one multi-node domain disagree about, and whether it is split or its clique believed."""
    apart, cut = "read as separate domains", is_cut(domain, list(members))
    believed = apart if cut else "the clique is used"
    kinds = {member.devices.accelerator.name for member in members}
    clouds = {tuple(member.labels.get(label, "") for label in CLOUD_RACKS) for member in members}
    claims = (
        ("zones", {member.zone for member in members}, apart),
        ("accelerators", kinds, apart),
        ("topograph domains", {topograph_domain(member.labels) or "" for member in members}, believed),
        *(
            (f"values of {label}", {racks[index] for racks in clouds}, believed)
            for index, label in enumerate(CLOUD_RACKS)
        ),
    )
    named = listed(member.node.name for member in members)
    for what, values, reading in claims:
        if len(values - {""}) > 1:
            seen = listed(values - {""})
            yield Explanation(
                Reason.LabelsContradict, f"NVLink domain {domain} ({named}) has different {what} ({seen}): {reading}"
            )
    if cut:
        devices, reach = whole_gpus(members), reach_of(members)
        why = f"has {devices} GPUs, more than the {reach} that NVLink joins"
        if devices <= reach or reach == 1:
            why = f"has several nodes of {listed(kinds)}, whose links do not leave a node"
        yield Explanation(Reason.LabelsContradict, f"NVLink domain {domain} ({named}) {why}: {apart}")


def beside_a_clique(apart: Apart) -> Explanation:
    """Note nodes without a clique in a rack where others have one: NVML has not seen the fabric up on them."""
    source, rack = apart.rack
    named = listed(member.node.name for member in apart.members)
    without = {"names no fabric" if member.labels.get(CLIQUE) else "is missing" for member in apart.members}
    who = f"node {named} is" if len(apart.members) == 1 else f"nodes {named} are each"
    return Explanation(
        Reason.LabelsContradict,
        f"{who} apart from others with {source}={rack}, which are in {listed(apart.cliques)}, "
        f"as {CLIQUE} {' or '.join(sorted(without))}: is the fabric up there, and feature discovery running?",
    )


def fabrics_of_a_rack(members: Iterable[AcceleratorNode]) -> Iterator[Explanation]:
    """Note a rack, no larger than NVLink reaches, of which cliques name several fabrics: some labels may be old.

    A fabric that restarts may have another cluster UUID, and each node's discovery sees that at a time of its own. A
    clique in two racks is told of by itself: one of its nodes has the label of another rack.
    """
    racks: dict[Membership, list[AcceleratorNode]] = defaultdict(list)
    homes: dict[str, set[Membership]] = defaultdict(set)
    for member in members:
        rack = rack_of(member.labels, member.devices.accelerator)
        if rack is not None and clique_of(member.labels):
            racks[rack].append(member)
            homes[clique_of(member.labels)].add(rack)
    for (label, name), together in sorted(racks.items()):
        cliques = {clique_of(member.labels) for member in together}
        fabrics = {clique.rpartition(".")[0] for clique in cliques if len(homes[clique]) == 1}
        if len(fabrics) > 1 and 0 < whole_gpus(together) <= reach_of(together):
            yield Explanation(
                Reason.LabelsContradict,
                f"nodes with {label}={name} name several NVLink fabrics ({listed(fabrics)}) in {CLIQUE}: read as "
                "separate domains; if it is one rack, its fabric was restarted, and some of these labels are old",
            )


def without_a_rack(members: Iterable[AcceleratorNode], apart: Iterable[Apart]) -> Iterator[Explanation]:
    """Note several nodes of one kind whose NVLink leaves the node, and of which no label says where it leads."""
    told = {member.node.name for each in apart for member in each.members}
    alone: dict[tuple[str, str], list[str]] = defaultdict(list)
    for member in members:
        kind = member.devices.accelerator
        joins = kind.domain_gpus > kind.gpus_per_node and kind.vendor != "cpu"  # no stand-in has links
        if joins and member.membership[0] == NODE and member.node.name not in told:
            alone[member.kind].append(member.node.name)
    for (_, accelerator), names in sorted(alone.items()):
        if len(names) > 1:
            yield Explanation(
                Reason.NvlinkDomainUnknown,
                f"{counted(len(names), 'node')} of {accelerator} ({listed(names)}) name no NVLink domain, so that each "
                f"is one by itself and no group spans them: {CLIQUE} is missing or names no fabric; is the fabric up, "
                "and does feature discovery or topograph run?",
            )


@functools.lru_cache(maxsize=REMEMBERED)
def of_a_node(node: NodeRecord, reported: Reported, catalog: Catalog) -> tuple[Explanation, ...]:
    """Note where labels, the device plugin, DRA and ComputeDomains disagree about one accelerator node."""
    member = member_of(node, reported, catalog)
    if not isinstance(member, AcceleratorNode):
        return ()
    return tuple(told for check in (_products, _memory, _boards, _driver, _cliques) for told in check(member, catalog))


def _products(member: AcceleratorNode, catalog: Catalog) -> Iterator[Explanation]:
    """Note labels of device discovery or a cloud that name another GPU; our own label overrules them on purpose."""
    labels, name = member.labels, member.devices.accelerator.name
    if labels.get(PRODUCT_LABELS[0]):
        return
    told = {key: catalog.accelerator_of_product(labels[key]) for key in PRODUCT_LABELS if labels.get(key)}
    told |= {key: catalog.accelerator_of_machine(labels[key]) for key in INSTANCE_LABELS if labels.get(key)}
    for key, other in told.items():
        if other is not None and other.name != name:
            yield Explanation(
                Reason.LabelsContradict,
                f"node {member.node.name}: {key}={labels[key]} means {other.name}, not {name}, which is used",
            )


def _memory(member: AcceleratorNode, _: Catalog) -> Iterator[Explanation]:
    """Note a memory label that is no number, or far from the memory of such GPUs; one that is absurd bars the node.

    Plans go by the smallest memory that a pool may use, so a wrong label matters. Our own product label may name a
    stand-in for a GPU that the catalog does not know, so nothing is compared then.
    """
    devices, known = member.devices, member.devices.accelerator.memory_bytes
    label = member.labels.get(MEMORY_MIB)
    if devices.shared or not label or member.labels.get(PRODUCT_LABELS[0]):
        return
    says, name = f"node {member.node.name}: {MEMORY_MIB}={label}", devices.accelerator.name
    if not labelled_memory_bytes(member.labels):
        why = f"{says} is no number of MiB: {known // MIB} are used, as {name} has"
        yield Explanation(Reason.LabelsContradict, why)
    elif abs(devices.memory_bytes - known) > MEMORY_OFF * known:
        why = f"{says}, where {name} has {known // MIB}: the label is used"
        yield Explanation(Reason.LabelsContradict, why)


def _boards(member: AcceleratorNode, _: Catalog) -> Iterator[Explanation]:
    """Note a node with more GPUs than NVLink joins on one board."""
    if member.board_gpus and member.states[0].unusable is None:
        offered = dict(member.node.capacity).get(member.devices.resource, 0)
        yield Explanation(
            Reason.LabelsContradict,
            f"node {member.node.name} offers {offered} {member.devices.resource} of {member.devices.accelerator.name}, "
            f"of which NVLink joins {member.board_gpus} on a board: no replica gets more of them, and which ones it "
            "gets is up to the device plugin",
        )


def _driver(member: AcceleratorNode, catalog: Catalog) -> Iterator[Explanation]:
    """Note where ResourceSlices and the device plugin, which offer the same GPUs, disagree on count or product."""
    devices, reported = member.devices, member.reported
    if devices.claimable or not reported.products or devices.shared or reported.parts:
        return
    offered = max(0, dict(member.node.capacity).get(devices.resource, 0))
    if offered != reported.gpus:
        yield Explanation(
            Reason.LabelsContradict,
            f"node {member.node.name} has {offered} {devices.resource} and {counted(reported.gpus, 'GPU')} in its "
            "ResourceSlices: the former is used",
        )
    for (product, _), _count in reported.products:
        other = accelerator_of_driver(product, catalog)
        if other is not None and other.name != devices.accelerator.name:
            yield Explanation(
                Reason.LabelsContradict,
                f"node {member.node.name} has {product!r} in its ResourceSlices and {devices.accelerator.name} by its "
                "labels: the labels are used",
            )


def _cliques(member: AcceleratorNode, _: Catalog) -> Iterator[Explanation]:
    """Note where the cliques that ComputeDomains found at pod start differ from the node's label or from each other."""
    label, cliques = clique_of(member.labels), member.reported.cliques
    told = member.labels.get(CLIQUE, "")
    if told and not label and not told.startswith(NO_FABRIC):
        yield Explanation(
            Reason.LabelsContradict,
            f"node {member.node.name}: {CLIQUE}={told} has no cluster UUID, which tells racks apart: it joins no nodes",
        )
    others = [clique for clique in cliques if clique != label]
    if label and others:
        yield Explanation(
            Reason.LabelsContradict,
            f"node {member.node.name} is labelled {CLIQUE}={label}, and a ComputeDomain has it in {listed(others)}: "
            "the label is used for what is placed now; what runs keeps running",
        )
    elif len(cliques) > 1:
        yield Explanation(
            Reason.LabelsContradict,
            f"node {member.node.name} is in several cliques by its ComputeDomains ({listed(cliques)}): "
            "none of them is used",
        )


def several_of_one_name(nodes: Iterable[NodeRecord]) -> Iterator[Explanation]:
    """Note node names that occur more than once, which happens only when dumps of several clusters are in one file."""
    times = Counter(node.name for node in nodes)
    names = [name for name, count in times.items() if count > 1]
    if names:
        yield Explanation(
            Reason.LabelsContradict,
            f"there are several nodes named {listed(names)}: the first of each by UID is read; keep clusters apart",
        )


def one_name_twice(members: Iterable[AcceleratorNode]) -> Iterator[Explanation]:
    """Note nodes that share a hostname label: Weft uses names, but whatever selects by the label mixes them up."""
    by_hostname: dict[str, list[str]] = defaultdict(list)
    for member in members:
        if hostname := member.labels.get(HOSTNAME):
            by_hostname[hostname].append(member.node.name)
    for hostname, names in sorted(by_hostname.items()):
        if len(names) > 1:
            yield Explanation(
                Reason.LabelsContradict,
                f"nodes {listed(names)} share the label {HOSTNAME}={hostname}: Weft tells them apart by name",
            )


def topologies_at_odds(topologies: Iterable[TopologyReport]) -> Iterator[Explanation]:
    """Note Kueue Topologies that order levels unlike a network's labels, or unlike a Topology before them by name."""
    known = [("its network", network) for network in NETWORKS]
    for topology in sorted(topologies, key=lambda each: each.name):
        for who, levels in known:
            shared = [level for level in topology.levels if level in levels]
            if shared != sorted(shared, key=levels.index):
                yield Explanation(
                    Reason.LabelsContradict,
                    f"Topology {topology.name} has {' above '.join(shared)}, and {who} has another order, which is "
                    "used",
                )
                break
        known.append((f"Topology {topology.name}", topology.levels))


def listed(names: Iterable[str]) -> str:
    """Join the first `NAMED` names in alphabetical order, with "..." where there are more."""
    ordered = sorted(names)
    return ", ".join(ordered[:NAMED]) + (", ..." if len(ordered) > NAMED else "")
