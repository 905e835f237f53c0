"""Whether the devices of a node are whole GPUs or parts of them, and how much memory each may use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.units import MIB

if TYPE_CHECKING:
    from weft.domain.hardware import Accelerator

Labels = dict[str, str]

MEMORY_MIB = "nvidia.com/gpu.memory"
# Of the device plugin and of GKE, each with the label that says among how many one GPU (or MIG device) is shared.
SHARING = {
    "nvidia.com/gpu.sharing-strategy": "nvidia.com/gpu.replicas",
    "cloud.google.com/gke-gpu-sharing-strategy": "cloud.google.com/gke-max-shared-clients-per-gpu",
}
# GKE offers MIG devices as nvidia.com/gpu, and this label alone has their profile (`1g.10gb`).
MIG_PROFILE = "cloud.google.com/gke-gpu-partition-size"
# How many GPUs there are, by who has counted them; under MIG `single` the first counts MIG devices.
COUNTED = (
    "nvidia.com/gpu.count",
    "karpenter.k8s.aws/instance-gpu-count",
    "eks.amazonaws.com/instance-gpu-count",
    "karpenter.azure.com/sku-gpu-count",
)
# AMD's node labeller writes `LABEL=VALUE` where all GPUs have one value, and `LABEL.VALUE=COUNT` where they differ.
AMD_PARTITIONS = ("amd.com/compute-memory-partition", "beta.amd.com/compute-memory-partition")
# Devices that a GPU is cut into, by the first half of that label (`cpx_nps4`).
PARTS_OF_A_GPU = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
SHARED_RESOURCE_SUFFIX = ".shared"
GB = 10**9
MOST_GPUS = 16  # of one machine, as in a2-megagpu-16g
LONGEST_LABEL = 63  # characters; an edited file may have more digits than Python reads

_PARTITION_SUFFIX = re.compile(r"(-MIG-.+)?(-SHARED)?$")
_PROFILE = re.compile(r"\d+g\.(?P<gigabytes>\d{1,4})gb.*")


def whole_product(product: str) -> str:
    """What device discovery calls the GPU of which the node's devices are parts."""
    return _PARTITION_SUFFIX.sub("", product)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node offers: `count` devices of a resource, of an accelerator that a label calls `product`."""

    labels: Labels
    product: str
    accelerator: Accelerator
    resource: str
    count: int


def are_parts(offer: Offer) -> bool:
    """Whether any of those who tell of parts does, or there are more devices than GPUs."""
    return (
        whole_product(offer.product) != offer.product
        or offer.resource.endswith(SHARED_RESOURCE_SUFFIX)
        or any(offer.labels.get(strategy, "none") not in {"", "none"} for strategy in SHARING)
        or _are_mig_devices(offer)
        or _devices_in_one_memory(offer) > 1
    )


def memory_bytes(offer: Offer) -> int:
    """Memory of one device: the label (MIB, of the MIG device where there are such), else the catalog.

    Time-sliced devices share one memory without a wall between them, so each counts for its part;
    so do AMD's partitions.
    """
    whole = _number(offer.labels.get(MEMORY_MIB)) * MIB or offer.accelerator.memory_bytes
    profile = _PROFILE.fullmatch(offer.labels.get(MIG_PROFILE, ""))
    if profile is not None:
        whole = min(whole, int(profile["gigabytes"]) * GB)
    return whole // _devices_in_one_memory(offer)


def _are_mig_devices(offer: Offer) -> bool:
    return bool(offer.labels.get(MIG_PROFILE)) or "-MIG-" in offer.product


def _devices_in_one_memory(offer: Offer) -> int:
    """Devices that share the memory of a GPU, or of a MIG device, without a wall; at least 1."""
    told = max(1, *(_number(offer.labels.get(clients)) for clients in SHARING.values()))
    told *= _partitions(offer.labels)
    return told if _are_mig_devices(offer) else max(told, _devices_per_gpu(offer))


def _devices_per_gpu(offer: Offer) -> int:
    """By whole times, where more are offered than there are: a device plugin that cuts them (HAMi), or slices.

    Where nobody has counted the GPUs there are as many as usual, if more are offered than any machine has.
    """
    counts = [_number(offer.labels.get(label)) for label in COUNTED]
    if offer.count > MOST_GPUS:
        counts.append(offer.accelerator.gpus_per_node)
    counted = next(filter(None, counts), offer.count)
    return max(1, offer.count // max(1, counted))


def _partitions(labels: Labels) -> int:
    """Devices per GPU of an AMD node, of that with the most; a mode that we do not know is taken for the finest."""
    told = [labels[key] for key in AMD_PARTITIONS if labels.get(key)] or counted_values(labels, AMD_PARTITIONS)
    modes = (mode.partition("_")[0].casefold() for mode in told)
    return max((PARTS_OF_A_GPU.get(mode, max(PARTS_OF_A_GPU.values())) for mode in modes), default=1)


def counted_values(labels: Labels, keys: tuple[str, ...]) -> list[str]:
    """The values that AMD's node labeller counts each by itself: `X` of `amd.com/gpu.product-name.X=4`."""
    found = (name.removeprefix(f"{key}.") for name in labels for key in keys if name.startswith(f"{key}."))
    return sorted(set(found))


def _number(text: str | None) -> int:
    """A label's whole number; 0 for none or anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= LONGEST_LABEL else 0
