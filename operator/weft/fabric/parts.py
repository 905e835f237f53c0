"""Whether the devices of a node are whole GPUs or parts of them, and how much memory each may use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.texts.units import MIB

if TYPE_CHECKING:
    from weft.domain.hardware import Accelerator

Labels = dict[str, str]

OWN_PRODUCT = "weft.dev/accelerator"  # may name a stand-in for a GPU that the catalog does not know
MEMORY_MIB = "nvidia.com/gpu.memory"
# Sharing strategies of the device plugin and of GKE, each with the label for how many share one GPU (or MIG device).
SHARING = {
    "nvidia.com/gpu.sharing-strategy": "nvidia.com/gpu.replicas",
    "cloud.google.com/gke-gpu-sharing-strategy": "cloud.google.com/gke-max-shared-clients-per-gpu",
}
# GKE offers MIG devices as nvidia.com/gpu: only this label gives their profile (`1g.10gb`).
MIG_PROFILE = "cloud.google.com/gke-gpu-partition-size"
# Labels with the number of GPUs, most trusted first; with the MIG strategy `single` the first counts MIG devices.
COUNTED = (
    "nvidia.com/gpu.count",
    "karpenter.k8s.aws/instance-gpu-count",
    "eks.amazonaws.com/instance-gpu-count",
    "karpenter.azure.com/sku-gpu-count",
    "cloud.google.com/gke-accelerator-count",
    "aliyun.accelerator/nvidia_count",
)
# AMD's node labeller writes `LABEL=VALUE` where all GPUs have the same value, else `LABEL.VALUE=COUNT` for each.
AMD_PARTITIONS = ("amd.com/compute-memory-partition", "beta.amd.com/compute-memory-partition")
# Devices that a GPU is cut into, by the first half of that label (`cpx_nps4`).
PARTS_OF_A_GPU = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
SHARED_RESOURCE_SUFFIX = ".shared"
SHARED_SUFFIX = "-SHARED"  # of the product, where feature discovery sees more devices than GPUs
GB = 10**9
MOST_GPUS = 16  # most of one machine, as in a2-megagpu-16g
MOST_OFF = 4  # times more or less memory than a kind of GPU has: a wrong unit, or a digit too few or too many
FEWEST_SHARING = 2  # devices of a GPU that is shared by somebody who does not say by how many
LONGEST_LABEL = 63  # characters; an edited file may have more digits than Python reads

_PARTITION_SUFFIX = re.compile(r"(-MIG-.+)?(-SHARED)?$", re.IGNORECASE)
_PROFILE = re.compile(r"\d+g\.(?P<gigabytes>\d{1,4})gb.*")
_PROFILE_SUFFIX = re.compile(r"-MIG-\d+g\.(?P<gigabytes>\d{1,4})gb", re.IGNORECASE)


def whole_product(product: str) -> str:
    """Return the product name of the whole GPU: without a `-MIG-...` or `-SHARED` suffix."""
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
    """Whether the devices are parts of GPUs: a name, label or resource says so, or there are more devices than GPUs."""
    return (
        whole_product(offer.product) != offer.product
        or offer.resource.endswith(SHARED_RESOURCE_SUFFIX)
        or any(offer.labels.get(strategy, "none") not in {"", "none"} for strategy in SHARING)
        or _are_mig_devices(offer)
        or _devices_in_one_memory(offer) > 1
    )


def memory_bytes(offer: Offer) -> int:
    """Return the bytes of one device: by its label (MiB, of the MIG device where there is one), else by the catalog.

    Without that label the product's name tells the size of MIG devices. Time-sliced devices and AMD's partitions share
    one memory without isolation, so each counts for its share. Of a whole GPU no label is believed that cannot be true.
    """
    if not are_parts(offer) and has_absurd_memory(offer.labels, offer.accelerator):
        return offer.accelerator.memory_bytes
    whole = labelled_memory_bytes(offer.labels) or _of_the_profile(offer.product) or offer.accelerator.memory_bytes
    profile = _PROFILE.fullmatch(offer.labels.get(MIG_PROFILE, ""))
    if profile is not None:
        whole = min(whole, int(profile["gigabytes"]) * GB)
    return whole // _devices_in_one_memory(offer)


def labelled_memory_bytes(labels: Labels) -> int:
    """Return what the memory label says, in bytes; 0 where it is missing or no number of MiB."""
    return _number(labels.get(MEMORY_MIB)) * MIB


def has_absurd_memory(labels: Labels, accelerator: Accelerator) -> bool:
    """Whether a whole GPU cannot have the memory of its label if it is what its product label says: one is wrong."""
    labelled, known = labelled_memory_bytes(labels), accelerator.memory_bytes
    if not labelled or labels.get(OWN_PRODUCT):
        return False
    return not known <= MOST_OFF * labelled <= MOST_OFF**2 * known


def _of_the_profile(product: str) -> int:
    """Return the bytes of MIG devices by the name of their product (`...-MIG-3g.40gb`); 0 for anything else."""
    found = _PROFILE_SUFFIX.search(product)
    return int(found["gigabytes"]) * GB if found else 0


def _are_mig_devices(offer: Offer) -> bool:
    return bool(offer.labels.get(MIG_PROFILE)) or "-MIG-" in offer.product.upper()


def _devices_in_one_memory(offer: Offer) -> int:
    """Count the devices that share the memory of one GPU or MIG device without isolation; at least 1."""
    least = FEWEST_SHARING if offer.product.upper().endswith(SHARED_SUFFIX) else 1
    told = max(least, *(_number(offer.labels.get(clients)) for clients in SHARING.values()))
    told *= _partitions(offer.labels)
    return told if _are_mig_devices(offer) else max(told, _devices_per_gpu(offer))


def _devices_per_gpu(offer: Offer) -> int:
    """Return devices per GPU, rounded down: above 1 where a plugin such as HAMi cuts GPUs, or time-slices them.

    Where no label counts the GPUs, a node that offers more than any machine has is taken to have the usual number.
    """
    usual = offer.accelerator.gpus_per_node if offer.count > MOST_GPUS else 0
    _, counted = counted_gpus(offer.labels)
    return max(1, offer.count // max(1, counted or usual or offer.count))


def counted_gpus(labels: Labels) -> tuple[str, int]:
    """Return the most trusted label that counts a node's GPUs, and its number; 0 without any."""
    counts = ((label, _number(labels.get(label))) for label in COUNTED)
    return next((found for found in counts if found[1]), ("", 0))


def _partitions(labels: Labels) -> int:
    """Return devices per GPU of an AMD node, by its finest mode; an unknown mode counts as the finest there is."""
    told = [labels[key] for key in AMD_PARTITIONS if labels.get(key)] or counted_values(labels, AMD_PARTITIONS)
    modes = (mode.partition("_")[0].casefold() for mode in told)
    return max((PARTS_OF_A_GPU.get(mode, max(PARTS_OF_A_GPU.values())) for mode in modes), default=1)


def counted_values(labels: Labels, keys: tuple[str, ...]) -> list[str]:
    """Return the values that AMD's node labeller counts one by one: `X` of `amd.com/gpu.product-name.X=4`."""
    found = (name.removeprefix(f"{key}.") for name in labels for key in keys if name.startswith(f"{key}."))
    return sorted(set(found))


def _number(text: str | None) -> int:
    """Read a label's whole number; 0 where it is missing or anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= LONGEST_LABEL else 0
