"""KV transfer between the halves of a split over multi-node NVLink, inside one rack such as GB200 NVL72.

UCX uses NVLink only for memory with a fabric handle, and silently falls back to TCP if anything is missing. vLLM
allocates such memory with `--enable-cumem-allocator` (its pull requests 33540 and 33648). Both pods have to be in one
IMEX domain, for which the split has a ComputeDomain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.kv.wires import goes_over, refuse_what_lacks
from weft.engines.terms.launch import EnvValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PoolSpec
    from weft.engines.terms.launch import LaunchRequest

NVLINK = "NVLink"  # kvTransfer.transport
ALLOCATOR = "--enable-cumem-allocator"
_OTHER_ALLOCATOR = "--no-enable-cumem-allocator"


def over_nvlink(spec: PoolSpec) -> bool:
    """Whether KV is to be transferred over NVLink."""
    return goes_over(spec, NVLINK)


def refuse_what_lacks_nvlink(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first missing requirement of NVLink, without which a half would use TCP."""
    spec = request.spec
    if not over_nvlink(spec):
        return
    other = (
        _OTHER_ALLOCATOR in spec.engine.args,
        (f"spec.engine.args {_OTHER_ALLOCATOR} takes memory from it"),
        "remove it",
    )
    refuse_what_lacks(spec, NVLINK, (other,))


def nvlink_arguments(request: LaunchRequest) -> tuple[str, ...]:
    """The argument that makes vLLM allocate memory that other nodes can map."""
    return (ALLOCATOR,) if over_nvlink(request.spec) else ()


def nvlink_variables() -> Iterator[EnvValue]:
    """Variables that make UCX use multi-node NVLink, so that its log says so if the node's fabric has none."""
    yield EnvValue("UCX_CUDA_IPC_ENABLE_MNNVL", "y")
