"""`/metrics` of a simulated engine under vLLM's own names, so that Weft reads it like a real one."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from weft.twin.engine.counts import Histogram
    from weft.twin.engine.engine import SimulatedEngine


class EngineMetrics:
    """The series of one simulated replica, read from the engine's counts at each scrape."""

    def __init__(self, model: str, engine: SimulatedEngine) -> None:
        """Make a registry for this engine alone, with vLLM's labels."""
        self._engine = engine
        self._labels = {"engine": "0", "model_name": model}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the exposition as of now, in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; called by the registry."""
        yield from self._gauges()
        yield from self._counters()
        counts = self._engine.counts
        yield self._histogram("time_to_first_token_seconds", counts.ttft)
        yield self._histogram("inter_token_latency_seconds", counts.inter_token)
        yield self._histogram("request_time_per_output_token_seconds", counts.tpot)
        yield self._histogram("e2e_request_latency_seconds", counts.latency)
        yield self._histogram("request_queue_time_seconds", counts.queue)
        yield self._histogram("request_prompt_tokens", counts.inputs)
        yield self._histogram("request_generation_tokens", counts.outputs)
        yield self._histogram("request_prefill_kv_computed_tokens", counts.computed)
        yield self._histogram("nixl_xfer_time_seconds", counts.transfer)

    def _gauges(self) -> Iterator[Metric]:
        engine = self._engine
        by_reason = {"capacity": engine.waiting_for_capacity, "deferred": engine.waiting_for_transfer}
        yield self._gauge("num_requests_running", "Requests in the batch", {"": engine.running})
        yield self._gauge("num_requests_waiting", "Requests waiting", {"": sum(by_reason.values())})
        yield self._gauge("num_requests_waiting_by_reason", "Waiting by reason", by_reason, "reason")
        yield self._gauge("kv_cache_usage_perc", "KV cache in use, 0 to 1", {"": engine.kv_usage})

    def _counters(self) -> Iterator[Metric]:
        counts = self._engine.counts
        ended = {"length": counts.answered, "abort": counts.cancelled}
        yield self._counter("prompt_tokens", "Prompt tokens", {"": counts.prompt_tokens})
        yield self._counter("generation_tokens", "Generated tokens", {"": counts.generated_tokens})
        yield self._counter("prefix_cache_queries", "Tokens looked up", {"": counts.prefix_queries})
        yield self._counter("prefix_cache_hits", "Tokens found", {"": counts.prefix_hits})
        yield self._counter("num_preemptions", "Requests preempted", {"": counts.preemptions})
        yield self._counter("request_success", "Requests ended", ended, "finished_reason")

    def _gauge(self, name: str, text: str, values: Mapping[str, float], label: str | None = None) -> Metric:
        names = [*self._labels, label] if label else [*self._labels]
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=names)
        for kind, value in values.items():
            family.add_metric(self._values(kind if label else None), value)
        return family

    def _counter(self, name: str, text: str, values: Mapping[str, int], label: str | None = None) -> Metric:
        names = [*self._labels, label] if label else [*self._labels]
        family = CounterMetricFamily(f"vllm:{name}", text, labels=names)
        for kind, value in values.items():
            family.add_metric(self._values(kind if label else None), value)
        return family

    def _histogram(self, name: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", name, labels=[*self._labels])
        bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(histogram.buckets), strict=True))
        family.add_metric(self._values(None), buckets, histogram.total)
        return family

    def _values(self, kind: str | None) -> list[str]:
        return [*self._labels.values(), *([kind] if kind is not None else [])]
