"""KV between the halves of a split over NVLink from node to node, inside one rack such as GB200 NVL72.

UCX sends only memory that has a fabric handle over it, and goes over TCP without a word where anything lacks. vLLM
allocates such memory with `--enable-cumem-allocator` (its pull requests 33540 and 33648). Both pods have to be in one
IMEX domain, for which the split has a ComputeDomain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.launch import EnvValue
from weft.engines.wires import goes_over, refuse_what_lacks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PoolSpec
    from weft.engines.launch import LaunchRequest

NVLINK = "NVLink"  # kvTransfer.transport
ALLOCATOR = "--enable-cumem-allocator"
_OTHER_ALLOCATOR = "--no-enable-cumem-allocator"


def over_nvlink(spec: PoolSpec) -> bool:
    """Whether KV shall go over NVLink."""
    return goes_over(spec, NVLINK)


def refuse_what_lacks_nvlink(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first thing without which a half that shall use NVLink would go over TCP."""
    spec = request.spec
    if not over_nvlink(spec):
        return
    other = _OTHER_ALLOCATOR in spec.engine.args, f"engine.args {_OTHER_ALLOCATOR} takes memory from it", "remove it"
    refuse_what_lacks(spec, NVLINK, (other,))


def nvlink_arguments(request: LaunchRequest) -> tuple[str, ...]:
    """What makes vLLM allocate memory that other nodes can map."""
    return (ALLOCATOR,) if over_nvlink(request.spec) else ()


def nvlink_variables() -> Iterator[EnvValue]:
    """Ask UCX for NVLink between nodes, so that its log says so where the node's fabric has none."""
    yield EnvValue("UCX_CUDA_IPC_ENABLE_MNNVL", "y")
