"""What routers and endpoint pickers count: requests as they arrive, whether or not an engine accepts them.

Looked up in vllm-router 0.1.17 as it runs, sglang-router 0.3.2 and older, the endpoint picker of the Gateway API
Inference Extension 0.3 to 1.3 and its successor in llm-d.
"""

from __future__ import annotations

from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """The name of a counter, and labels that its series must have."""

    name: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One way to count arrivals: some counters minus others; used if one of the metrics `shown_by` is present."""

    shown_by: tuple[str, ...]
    added: tuple[Counter, ...]
    taken: tuple[Counter, ...] = ()


@dataclass(frozen=True, slots=True)
class FrontSeries:
    """The ways in which fronts count arrivals, the best first, and where they serve their metrics."""

    ways: tuple[Arrivals, ...]
    port: int
    path: str = "/metrics"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all counters that are read."""
        counters = {counter.name for way in self.ways for counter in (*way.added, *way.taken)}
        return tuple(sorted(counters | {name for way in self.ways for name in way.shown_by}))


def _one(name: str, *labels: tuple[str, str]) -> Arrivals:
    return Arrivals((name,), (Counter(name, labels),))


FRONTS = FrontSeries(
    ways=(
        # vllm-router for a pair of pools: each request once, failed ones too
        _one("vllm_router_pd_requests_total"),
        # vllm-router for one pool: `requests_total` lacks failed requests. Each retry counts, with a worker or without
        Arrivals(
            ("vllm_router_processed_requests_total", "vllm_router_request_errors_total"),
            (
                Counter("vllm_router_processed_requests_total"),
                Counter("vllm_router_request_errors_total", (("error_type", "no_available_workers"),)),
            ),
            (Counter("vllm_router_retries_total"),),
        ),
        # sglang-router, newer and before 0.3; probes are GET
        _one("smg_http_requests_total", ("method", "POST")),
        _one("sgl_router_requests_total"),
        # the proxies around TensorRT-LLM's server for pairs: requests to prefill servers, one for each client request
        _one("weft_front_requests_total"),
        # endpoint pickers: llm-d's, and the Gateway API Inference Extension's from 1.1 on and before
        _one("llm_d_epp_request_total"),
        _one("inference_objective_request_total"),
        _one("inference_model_request_total"),
    ),
    port=29000,
)
