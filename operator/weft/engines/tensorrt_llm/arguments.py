"""Arguments of `trtllm-serve serve`, for what is not in its configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.terms.versions import release_order

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import LaunchRequest

Arguments = tuple[str, ...]

# First seen in the documentation of this candidate; before, clients see the repository or a path's last folder.
NAMES_ITS_MODEL = release_order("1.3.0rc6")


def model(request: LaunchRequest) -> Arguments:
    """Arguments for the served name, if the version has the option, and for the longest context."""
    spec = request.spec.model
    named = release_order(request.plan.engine.version) >= NAMES_ITS_MODEL
    name = ("--served_model_name", (*spec.served_names, spec.model_id)[0]) if named else ()
    context = ("--max_seq_len", str(spec.max_context_tokens)) if spec.max_context_tokens else ()
    return (*name, *context)


def parallel(shape: Shape) -> Arguments:
    """Arguments for the parallelism of the replica. Attention-DP ranks are counted in the tensor group too."""
    group = shape.tensor_parallel * shape.data_parallel
    return (
        *("--tp_size", str(group)),
        *(("--pp_size", str(shape.pipeline_parallel)) if shape.pipeline_parallel > 1 else ()),
        *(("--ep_size", str(shape.expert_parallel)) if shape.expert_parallel > 1 else ()),
        *("--gpus_per_node", str(shape.gpus_per_pod)),
    )
