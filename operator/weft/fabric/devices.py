"""Which accelerators a node has, read from labels of device discovery and clouds, extended resources and DRA."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.fabric.parts import (
    OWN_PRODUCT,
    SHARED_RESOURCE_SUFFIX,
    Offer,
    are_parts,
    counted_values,
    memory_bytes,
    whole_product,
)
from weft.fabric.reported import NOTHING
from weft.fabric.unused import INSTANCE_LABELS, announced, for_machines, no_engine_for, of_others, unknown_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord
    from weft.domain.hardware import Accelerator
    from weft.fabric.parts import Labels
    from weft.fabric.reported import Reported

# In order of trust: our own label is set by an administrator, the others by device discovery. A node with none of them
# is read by its cloud instance type, and then by its DRA driver.
PRODUCT_LABELS = (
    OWN_PRODUCT,
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "aliyun.accelerator/nvidia_name",
    "doks.digitalocean.com/gpu-model",
)
# The label that device discovery writes, by the resource's vendor prefix; other vendors have only our own label.
DISCOVERED_AS = {"nvidia.com": "nvidia.com/gpu.product", "amd.com": "amd.com/gpu.product-name"}

AMD_PRODUCTS = ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
PARTS_OF_ITS_OWN = re.compile(r"nvidia\.com/mig-.+|amd\.com/[sdtqc]px_nps\d+")  # as the `mixed` strategies name them
MEMORY_OF_GPUS = frozenset({"aliyun.com/gpu-mem", "tencent.com/vcuda-memory"})  # GPUs that are offered by their memory


@dataclass(frozen=True, slots=True)
class Devices:
    """The accelerators of one node. `memory_bytes` is what one schedulable device may use.

    `claimable` counts GPUs that only DRA offers; `elsewhere` notes devices under resource names that Weft does not
    request.
    """

    accelerator: Accelerator
    resource: str
    memory_bytes: int
    shared: bool
    claimable: int = 0
    elsewhere: Explanation | None = None


def read_devices(
    node: NodeRecord, labels: Labels, catalog: Catalog, reported: Reported = NOTHING
) -> Devices | Explanation | None:
    """Read a node's accelerators: None for a node without any, an Explanation where they cannot be used.

    The kubelet keeps a count of 0 for every resource that a device plugin once offered (whole GPUs that are now shared,
    MIG devices that are whole again, GPUs that DRA has taken over): such a 0 is ignored beside resources with a count.
    """
    offered = dict(node.capacity)
    product = product_of(labels) or _only_kind(labels) or _product_of_machine(labels, offered, catalog)
    product = product or _product_of_driver(offered, reported, catalog)
    if product is None:
        return _without_a_product(node, labels, catalog, reported)
    accelerator = accelerator_of_driver(whole_product(product), catalog)  # an edited file may have the driver's blanks
    if accelerator is None:
        return unknown_product(node.name, labels, product, OWN_PRODUCT)
    there = _there(node)
    resource = _resource_offered(accelerator, there)
    if resource is None and (claimable := _claimable(node, labels, reported, catalog)) is not None:
        return claimable
    resource = resource or _resource_offered(accelerator, offered)
    elsewhere = _under_names_of_their_own(node, there)
    if resource is None:
        return elsewhere or Explanation(
            Reason.DevicePluginMissing,
            f"node {node.name} is labelled {product!r} but offers no {accelerator.resource}: "
            f"{_instead(there, catalog) or 'is the device plugin running?'}",
        )
    offer = Offer(labels, product, accelerator, resource, offered[resource])
    return Devices(accelerator, resource, memory_bytes(offer), are_parts(offer), elsewhere=elsewhere)


def _instead(there: Mapping[str, int], catalog: Catalog) -> str:
    """Say what accelerators of other vendors a node offers; empty for none, where its device plugin may be away."""
    named = [f"{count} {name}" for name, count in sorted(there.items()) if is_accelerator(name, catalog)]
    return f"it offers {' and '.join(named)}, so that the label is wrong" if named else ""


def _there(node: NodeRecord) -> dict[str, int]:
    """Return the extended resources of which the node has at least one now."""
    return {name: count for name, count in node.capacity if count > 0}


def _without_a_product(
    node: NodeRecord, labels: Labels, catalog: Catalog, reported: Reported
) -> Devices | Explanation | None:
    """Read a node whose product nothing names: by what it offers now, then DRA, then what it offered once."""
    there = _there(node)
    return (
        _unnamed(node, there, catalog)
        or _claimable(node, labels, reported, catalog)
        or _under_names_of_their_own(node, there)
        or _unnamed(node, dict(node.capacity), catalog)
        or of_others(node.name, there)
        or announced(node.name, labels, catalog)
    )


def product_of(labels: Mapping[str, str]) -> str | None:
    """Return the product name in the most trusted label, or None without one."""
    return next((labels[key] for key in PRODUCT_LABELS if labels.get(key)), None)


def _only_kind(labels: Labels) -> str | None:
    """Return the one product that AMD's node labeller counts; None where it counts several or none."""
    kinds = counted_values(labels, AMD_PRODUCTS)
    return kinds[0] if len(kinds) == 1 else None


def label_that_names(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the (label, value) by which a node's accelerator is known; None without such a label."""
    return next(((key, labels[key]) for key in (*PRODUCT_LABELS, *INSTANCE_LABELS) if labels.get(key)), None)


def _product_of_machine(labels: Mapping[str, str], offered: Mapping[str, int], catalog: Catalog) -> str | None:
    """Return the accelerator of the instance type, if the node offers it: clouds run no device discovery."""
    machine = next((labels[key] for key in INSTANCE_LABELS if labels.get(key)), None)
    accelerator = catalog.accelerator_of_machine(machine) if machine is not None else None
    if accelerator is None or _resource_offered(accelerator, offered) is None:
        return None
    return accelerator.name


def _product_of_driver(offered: Mapping[str, int], reported: Reported, catalog: Catalog) -> str | None:
    """Return what the DRA driver calls GPUs that the device plugin offers too, for nodes without a product label."""
    for (product, _), _count in reported.products:
        accelerator = accelerator_of_driver(product, catalog)
        if accelerator is not None and _resource_offered(accelerator, offered) is not None:
            return accelerator.name
    return None


def accelerator_of_driver(product: str, catalog: Catalog) -> Accelerator | None:
    """Find an accelerator by a driver's name for it (`NVIDIA GB200`): labels have `-` or `_` for its spaces."""
    spellings = (product.replace(" ", blank) for blank in ("-", "_"))
    return next(filter(None, map(catalog.accelerator_of_product, spellings)), None)


def _claimable(node: NodeRecord, labels: Labels, reported: Reported, catalog: Catalog) -> Devices | Explanation | None:
    """Read GPUs that a DRA driver reports and no extended resource counts; None without any."""
    if not reported.products:
        return None
    (product, memory), _ = reported.products[0]
    accelerator = accelerator_of_driver(product_of(labels) or product, catalog)
    if accelerator is None:
        return Explanation(
            Reason.AcceleratorUnknown,
            f"node {node.name} offers {reported.gpus} {product!r} through DRA, which the catalog does not know: it is "
            "not used",
        )
    resource = accelerator.resource
    return Devices(accelerator, resource, memory or accelerator.memory_bytes, shared=False, claimable=reported.gpus)


def _under_names_of_their_own(node: NodeRecord, offered: Mapping[str, int]) -> Explanation | None:
    """Note MIG devices and AMD partitions that the `mixed` strategies name, GPUs by the GiB, and those of machines."""
    parts = {name for name in offered if name in MEMORY_OF_GPUS or PARTS_OF_ITS_OWN.fullmatch(name)}
    if not parts:
        return for_machines(node.name, offered)
    return Explanation(
        Reason.SharedDevice,
        f"node {node.name} offers {' and '.join(f'{offered[name]} {name}' for name in sorted(parts))}, which Weft does "
        "not ask for: only whole GPUs, or parts under the name of whole ones",
    )


def _unnamed(node: NodeRecord, offered: Mapping[str, int], catalog: Catalog) -> Explanation | None:
    """Note accelerators whose product is unknown; None for NICs and other extended resources, which need no note."""
    resource = min((name for name in offered if _is_known(name, catalog)), default=None)
    if resource is None:
        return None
    kinds = counted_values(dict(node.labels), AMD_PRODUCTS)
    if kinds:
        why = f"of several kinds ({', '.join(kinds)}), of which a pod gets any: it is not used"
        return Explanation(Reason.AcceleratorUnknown, f"node {node.name} offers {offered[resource]} {resource} {why}")
    if not _has_an_engine(resource, catalog):
        return no_engine_for(node.name, f"{offered[resource]} {resource}")
    return Explanation(
        Reason.AcceleratorUnknown,
        f"node {node.name} offers {offered[resource]} {resource} but no label names the product: it is not used; "
        f"install feature discovery or run: kubectl label node {node.name} {label_of_product(resource)}=PRODUCT",
    )


def is_accelerator(resource: str, catalog: Catalog) -> bool:
    """Whether an extended resource is one of the catalog's accelerators or of their parts; NICs are not."""
    return PARTS_OF_ITS_OWN.fullmatch(resource) is not None or _is_known(resource, catalog)


def _is_known(resource: str, catalog: Catalog) -> bool:
    """Whether a resource is an accelerator's in the catalog, for whole devices or shared ones."""
    whole = resource.removesuffix(SHARED_RESOURCE_SUFFIX)
    return any(whole == accelerator.resource for accelerator in catalog.accelerators)


def _has_an_engine(resource: str, catalog: Catalog) -> bool:
    """Whether an engine of the catalog runs on any accelerator that is offered under this name."""
    served = {generation for facts in catalog.performance.values() for generation in facts.serves}
    whole = resource.removesuffix(SHARED_RESOURCE_SUFFIX)
    return any(whole == each.resource and each.generation in served for each in catalog.accelerators)


def label_of_product(resource: str) -> str:
    """Return the label that names a resource's product: the one of device discovery, else our own label."""
    return DISCOVERED_AS.get(resource.partition("/")[0], PRODUCT_LABELS[0])


def _resource_offered(accelerator: Accelerator, offered: Mapping[str, int]) -> str | None:
    """Return the accelerator's resource in `offered`: that of whole devices, or the plugin's `.shared` one."""
    names = (accelerator.resource, accelerator.resource + SHARED_RESOURCE_SUFFIX)
    return next((name for name in names if name in offered), None)
