"""Room for new replicas: how many of each size would fit, per NVLink domain and per accelerator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """Room for new replicas in one NVLink domain, over all of its usable nodes.

    `total` counts GPUs of all its nodes, `free` those that nobody holds, was promised or keeps as a spare. `largest` is
    the largest replica that fits, in GPUs: whole nodes of the domain, or a part of one. `slots` are (GPUs of a replica,
    how many such replicas would fit if no others came), the smallest first.
    """

    zone: str
    domain: str
    accelerator: str
    total: int
    free: int
    largest: int
    slots: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class AcceleratorRoom:
    """The room over all domains with one accelerator; fields as in `DomainRoom`."""

    accelerator: str
    total: int
    free: int
    largest: int
    slots: tuple[tuple[int, int], ...]

    def unusable_share(self, gpus: int) -> float:
        """Share of the free GPUs that replicas of this size cannot use, 0 to 1; 0 where nothing is free.

        The unusable free space index of Gorman and Whitcroft, "Measuring the impact of the Linux memory manager"
        (2005), as the Linux kernel shows it for memory: (free - size x slots of that size) / free.
        """
        if self.free <= 0:
            return 0.0
        return 1.0 - gpus * dict(self.slots).get(gpus, 0) / self.free
