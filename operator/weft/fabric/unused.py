"""Nodes whose accelerators nobody here can use: devices of other vendors, for virtual machines, or not offered yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.catalog import Catalog
    from weft.fabric.parts import Labels

INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# Accelerators that no engine of the catalog supports; extended resources that match nothing are NICs and the like. The
# names are those of the vendors' device plugins, and of HAMi, which cuts devices under names of its own.
OF_OTHERS = re.compile(
    r"google\.com/tpu|aws\.amazon\.com/neuron(core|device)?|huawei\.com/Ascend\w+|qualcomm\.com/qaic"
    r"|gpu\.intel\.com/(i915|xe)|tenstorrent\.com/\w+|furiosa\.ai/\w+|rebellions\.ai/\w+|cambricon\.com/v?mlu\w*"
    r"|mthreads\.com/v?gpu|metax-tech\.com/s?gpu|hygon\.com/dcu(num)?|iluvatar\.(ai|com)/v?gpu|enflame\.com/(v?|drs-)gcu"
    r"|kunlunxin\.com/v?xpu|baidu\.com/xpu"
)
# What NVIDIA's device plugins for virtual machines (KubeVirt, Kata) offer: GPUs by their name in the database of PCI
# devices (`GH100_H100_SXM5_80GB`), vGPUs by their type (`NVIDIA_A10-24Q`), or all GPUs as `pgpu`. Names of NICs, which
# their operator chooses, begin with a small letter.
FOR_MACHINES = re.compile(r"nvidia\.com/(pgpu|(?!\w*NVSwitch)[A-Z]\w*_[\w.-]+)")
# Labels by which an operator marks nodes that have GPUs, before anything says which, and what is offered there then.
PRESENT = {"nvidia.com/gpu.present": "nvidia.com/gpu", "feature.node.kubernetes.io/amd-gpu": "amd.com/gpu"}
VIRTUAL = "nvidia.com/vgpu.present"


def of_others(node: str, there: Mapping[str, int]) -> Explanation | None:
    """Note accelerators for which Weft has no engine, so that users learn why the fabric lacks them."""
    named = _matching(OF_OTHERS, there)
    return no_engine_for(node, named) if named else None


def no_engine_for(node: str, named: str) -> Explanation:
    """Say that no engine runs on these devices."""
    return Explanation(
        Reason.AcceleratorUnknown, f"node {node} offers {named}, for which Weft has no engine: it is not used"
    )


def for_machines(node: str, there: Mapping[str, int]) -> Explanation | None:
    """Note GPUs that are handed to virtual machines, which containers cannot ask for."""
    named = _matching(FOR_MACHINES, there)
    if not named:
        return None
    why = "which are for virtual machines: Weft asks for GPUs of containers only"
    return Explanation(Reason.SharedDevice, f"node {node} offers {named}, {why}")


def announced(node: str, labels: Labels, catalog: Catalog) -> Explanation | None:
    """Note a node that must have GPUs, by its type of machine or an operator's label, and offers none."""
    for label in INSTANCE_LABELS:
        accelerator = catalog.accelerator_of_machine(labels.get(label, ""))
        if accelerator is not None:
            return _missing(node, f"{label}={labels[label]}, which has {accelerator.name},", accelerator.resource)
    found = ((label, resource) for label, resource in PRESENT.items() if labels.get(label) == "true")
    return next((_missing(node, f"{label}=true", resource) for label, resource in found), None)


def unknown_product(node: str, labels: Labels, product: str, own_label: str) -> Explanation:
    """Say that the catalog lacks a product; a virtual GPU is a part of one, and no label makes it whole."""
    if labels.get(VIRTUAL) == "true":
        what = f"{product!r}, a virtual GPU (vGPU), of which Weft does not know what it can do: it is not used"
        return Explanation(Reason.AcceleratorUnknown, f"node {node} has {what}")
    return Explanation(
        Reason.AcceleratorUnknown,
        f"node {node} has {product!r}, which the catalog does not know: it is not used; if it is one that the "
        f"catalog has, run: kubectl label node {node} {own_label}=NAME",
    )


def _missing(node: str, told: str, resource: str) -> Explanation:
    return Explanation(
        Reason.DevicePluginMissing,
        f"node {node} is labelled {told} but offers no {resource}: is the device plugin running?",
    )


def _matching(names: re.Pattern[str], there: Mapping[str, int]) -> str:
    """Count the devices whose resource has such a name; empty for none."""
    return " and ".join(f"{count} {name}" for name, count in sorted(there.items()) if names.fullmatch(name))
