"""`/metrics` of a simulated engine in vLLM's own names, so that Weft reads it like the real thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from weft.twin.engine import Finished, SimulatedEngine

# vLLM's default buckets, in seconds
TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TPOT_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)


class EngineMetrics:
    """The series of one simulated replica; `observe` each finished request, `text` is what a scrape answers."""

    def __init__(self, model: str) -> None:
        """A registry of its own, labelled as vLLM labels."""
        self._registry = CollectorRegistry()
        self._labels = {"model_name": model, "engine": "0"}
        self._running = self._gauge("vllm:num_requests_running", "Requests in the batch")
        self._waiting = self._gauge("vllm:num_requests_waiting", "Requests waiting")
        self._by_reason = Gauge(
            "vllm:num_requests_waiting_by_reason",
            "Waiting by reason",
            [*self._labels, "reason"],
            registry=self._registry,
        )
        self._kv = self._gauge("vllm:kv_cache_usage_perc", "KV cache in use, 0 to 1")
        self._prompt = self._counter("vllm:prompt_tokens", "Prompt tokens")
        self._generated = self._counter("vllm:generation_tokens", "Generated tokens")
        self._success = Counter(
            "vllm:request_success", "Requests ended", [*self._labels, "finished_reason"], registry=self._registry
        ).labels(**self._labels, finished_reason="length")
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", TTFT_BUCKETS)
        self._itl = self._histogram("vllm:inter_token_latency_seconds", TPOT_BUCKETS)
        self._tpot = self._histogram("vllm:request_time_per_output_token_seconds", TPOT_BUCKETS)
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", TTFT_BUCKETS)
        self._queue = self._histogram("vllm:request_queue_time_seconds", TTFT_BUCKETS)
        self._inputs = self._histogram("vllm:request_prompt_tokens", TOKEN_BUCKETS)
        self._outputs = self._histogram("vllm:request_generation_tokens", TOKEN_BUCKETS)
        self._computed = self._histogram("vllm:request_prefill_kv_computed_tokens", TOKEN_BUCKETS)

    def observe(self, finished: Finished) -> None:
        """Count one answered request."""
        self._prompt.inc(finished.input_tokens)
        self._generated.inc(finished.output_tokens)
        self._success.inc()
        self._ttft.observe(finished.ttft)
        self._tpot.observe(finished.tpot)
        self._itl.observe(finished.tpot)
        self._e2e.observe(finished.latency)
        self._queue.observe(finished.queue)
        self._inputs.observe(finished.input_tokens)
        self._outputs.observe(finished.output_tokens)
        self._computed.observe(finished.input_tokens)

    def text(self, engine: SimulatedEngine) -> bytes:
        """The exposition now."""
        waiting = len(engine.waiting)
        self._running.set(len(engine.running) + len(engine.prefilling))
        self._waiting.set(waiting)
        self._by_reason.labels(**self._labels, reason="capacity").set(waiting)
        self._by_reason.labels(**self._labels, reason="deferred").set(0)
        self._kv.set(engine.kv_usage)
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, list(self._labels), registry=self._registry).labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, list(self._labels), registry=self._registry).labels(**self._labels)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        family = Histogram(name, name, list(self._labels), buckets=buckets, registry=self._registry)
        return family.labels(**self._labels)
