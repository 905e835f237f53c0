"""Amazon's EFA between the halves of a split: NIXL's libfabric, where its UCX is not what reaches the network.

Looked up in NIXL 0.7.1 to 1.5.1: each wheel has the plugin, which loads `libfabric.so.1` and `libcuda.so.1` from the
image around it, and takes the provider `efa`, `tcp` or `sockets`, whichever there is first. Neither vLLM's published
images nor SGLang's have libfabric (vLLM issue 55635).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.launch import EnvValue
from weft.engines.wires import goes_over, refuse_what_lacks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PoolSpec
    from weft.engines.launch import LaunchRequest

EFA = "EFA"  # kvTransfer.transport
DEVICE = "vpc.amazonaws.com/efa"  # what Amazon's device plugin calls its interfaces
BACKEND = "LIBFABRIC"  # NIXL's name of the plugin


def over_efa(spec: PoolSpec) -> bool:
    """Whether KV shall go over EFA."""
    return goes_over(spec, EFA)


def refuse_what_lacks_efa(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first thing without which a half that shall use EFA would end, or go over TCP."""
    spec = request.spec
    if not over_efa(spec):
        return
    claims = (
        (
            DEVICE not in dict(spec.engine.resources),
            "pods have no such device",
            f"name {DEVICE} and a count in engine.resources.rdma",
        ),
        (
            spec.engine.image is None,
            f"{request.plan.engine.image} has no libfabric",
            "name an image of yours that has it in engine.image",
        ),
    )
    refuse_what_lacks(spec, EFA, claims)


def efa_variables() -> Iterator[EnvValue]:
    """So that an engine without a working device ends, and does not fall back to TCP or to copies in software."""
    yield EnvValue("FI_PROVIDER", "efa")
    yield EnvValue("FI_EFA_USE_DEVICE_RDMA", "1")
