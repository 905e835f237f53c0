"""Service discovery arguments of `sglang-router` and its descendant `vllm-router`: which pods are replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.engines.terms.launch import FrontRequest


def discovery_arguments(request: FrontRequest, engine_port: int, pairing: tuple[str, ...]) -> tuple[str, ...]:
    """The port and the label selectors of replicas; `pairing` are the arguments that make a router pair two pools."""
    return (
        *("--service-discovery", "--service-discovery-port", str(engine_port)),
        *("--service-discovery-namespace", request.namespace),
        *_selectors(request, pairing),
    )


def _selectors(request: FrontRequest, pairing: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(f"{key}={value}" for key, value in request.prefill_or_all)
    if not request.decode:
        return ("--selector", *chosen)
    decode = tuple(f"{key}={value}" for key, value in request.decode)
    return (*pairing, "--prefill-selector", *chosen, "--decode-selector", *decode)
