"""Amazon's EFA between the halves of a split: NIXL's libfabric plugin, where its UCX cannot use the network.

Looked up in NIXL 0.7.1 to 1.5.1: each wheel has the plugin, which loads `libfabric.so.1` and `libcuda.so.1` from the
surrounding image, and takes the first available of the providers `efa`, `tcp` and `sockets`. Neither vLLM's published
images nor SGLang's have libfabric (vLLM issue 55635).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.kv.wires import goes_over, refuse_what_lacks
from weft.engines.terms.launch import EnvValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PoolSpec
    from weft.engines.terms.launch import LaunchRequest

EFA = "EFA"  # kvTransfer.transport
DEVICE = "vpc.amazonaws.com/efa"  # the resource name of Amazon's device plugin
BACKEND = "LIBFABRIC"  # NIXL's name of the plugin


def over_efa(spec: PoolSpec) -> bool:
    """Whether KV is to be transferred over EFA."""
    return goes_over(spec, EFA)


def refuse_what_lacks_efa(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first missing requirement of EFA, without which a half would end or fall back to TCP."""
    spec = request.spec
    if not over_efa(spec):
        return
    claims = (
        (
            DEVICE not in dict(spec.engine.resources),
            "pods have no such device",
            f"name {DEVICE} and a count in spec.engine.resources.rdma",
        ),
        (
            spec.engine.image is None,
            f"{request.plan.engine.image} has no libfabric",
            "name an image of yours that has it in spec.engine.image",
        ),
    )
    refuse_what_lacks(spec, EFA, claims)


def efa_variables() -> Iterator[EnvValue]:
    """Variables that make an engine without a working EFA device end, not fall back to TCP or software copies."""
    yield EnvValue("FI_PROVIDER", "efa")
    yield EnvValue("FI_EFA_USE_DEVICE_RDMA", "1")
