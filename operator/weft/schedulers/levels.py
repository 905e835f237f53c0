"""Which topology level keeps a replica inside one NVLink domain, and which node label names its accelerator.

Kueue knows no NVLink, only levels of node labels. A level is right when no domain of it reaches into two NVLink
domains; the outermost such level leaves Kueue the most room. Levels are judged by their nodes and not by the names of
their labels, so the clique, a rack label of a cloud and a label of the administrator's own serve alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.shape import Shape
    from weft.schedulers.protocol import Ask, Site

HOSTNAME = "kubernetes.io/hostname"
CLIQUE = "nvidia.com/gpu.clique"  # the first to recommend: NVML itself reports it
Levels = tuple[str, ...]  # node labels, the outermost first


def group_of(shape: Shape, rule: DomainRule) -> int:
    """Pods that must share one NVLink domain: the replica, or a pipeline stage of it where stages may spread."""
    if rule is DomainRule.Preferred and shape.pipeline_parallel > 1:
        return max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    return shape.pods


def level_of(ask: Ask, topologies: Sequence[Levels]) -> str | Explanation:
    """The topology level (a node label) for this replica; empty where its pods need not share one.

    An `Explanation` where pods that must share NVLink would not be kept together. Weft may not read which Topology a
    queue uses, so a level counts only if it is right in every Topology that has it.
    """
    if ask.shape.pods == 1:
        return HOSTNAME if any(HOSTNAME in levels for levels in topologies) else ""
    group = group_of(ask.shape, ask.placement.domain)
    fitting = (_outermost(levels, ask.sites, group) for levels in topologies)
    votes = Counter(level for level in fitting if level is not None and _is_safe(level, ask.sites, topologies))
    if votes:
        return min(votes, key=lambda level: (-votes[level], level))
    return "" if group == 1 else _no_level(group, ask.sites, topologies)


def product_of(sites: Iterable[Site]) -> tuple[str, tuple[str, ...]] | None:
    """(Label, values): the label that names the accelerator on most nodes, with all its values; None without nodes."""
    votes = Counter(key for key, _ in (site.product for site in sites))
    if not votes:
        return None
    label = min(votes, key=lambda key: (-votes[key], key))
    return label, tuple(sorted({site.product[1] for site in sites if site.product[0] == label}))


def _outermost(levels: Levels, sites: Sequence[Site], group: int) -> str | None:
    """The outermost level whose domains each lie in one NVLink domain, if one of them has `group` nodes; else None."""
    for depth in range(1, len(levels) + 1):
        domains = _domains(levels[:depth], sites)
        if _lie_in_nvlink(domains) and max(map(len, domains), default=0) >= group:
            return levels[depth - 1]
    return None


def _is_safe(level: str, sites: Sequence[Site], topologies: Sequence[Levels]) -> bool:
    cut = (levels[: levels.index(level) + 1] for levels in topologies if level in levels)
    return all(_lie_in_nvlink(_domains(levels, sites)) for levels in cut)


def _domains(levels: Levels, sites: Sequence[Site]) -> list[list[str]]:
    """For each topology domain, the NVLink domain of each of its nodes; nodes that lack a label are in none."""
    found: dict[Levels, list[str]] = defaultdict(list)
    for site in sites:
        if all(level in site.labels for level in levels):
            found[tuple(site.labels[level] for level in levels)].append(site.domain)
    return list(found.values())


def _lie_in_nvlink(domains: Iterable[Sequence[str]]) -> bool:
    return all(len(set(domain)) == 1 for domain in domains)


def _no_level(group: int, sites: Sequence[Site], topologies: Sequence[Levels]) -> Explanation:
    known = "; ".join(" > ".join(levels) for levels in topologies)
    have = f"the Topologies of Kueue have {known}" if known else "Kueue has no Topology"
    labels = sorted({key for site in sites for key in site.labels}, key=lambda key: (key != CLIQUE, key))
    apt = next((label for label in labels if _outermost((label,), sites, group)), None)
    hint = f": add a level with nodeLabel {apt} above {HOSTNAME}" if apt else ""
    message = f"no topology level keeps {group} nodes inside one NVLink domain, {have}{hint}"
    return Explanation(Reason.NoTopologyLevel, message)
