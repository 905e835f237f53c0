"""What a scrape shows of one engine, and by how much its passes differ from those of the performance model."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.scaling import is_sane
from weft.twin.policies.forward_pass import ForwardPass, Requests
from weft.twin.policies.signals import busy, pods, waiting

if TYPE_CHECKING:
    from weft.domain.snapshot import PodObservation
    from weft.twin.policies.policy import PoolView

_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0
_NEWEST_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One engine as a scrape shows it: sequences, their KV, and the queue in requests."""

    sequences: float
    kv_tokens: float
    queue: float

    @classmethod
    def of(cls, view: PoolView, pod: PodObservation) -> EngineLoad | None:
        """None for a pod that lacks one of them."""
        queue = waiting(pod)
        if queue is None or not is_sane(pod.running) or not is_sane(pod.kv_usage):
            return None
        return cls(pod.running, pod.kv_usage * view.speed.kv_tokens, queue)

    def times(self, factor: float) -> EngineLoad:
        """With so many times the load."""
        return EngineLoad(self.sequences * factor, self.kv_tokens * factor, self.queue * factor)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """Seconds of an engine of one role that serves the mean request."""

    passes: ForwardPass
    requests: Requests
    role: Role

    def ttft(self, load: EngineLoad, computed: float | None = None) -> float:
        """The queue and one more prompt of so many tokens (the mean unless given), beside what decodes."""
        tokens = load.queue * self.requests.computed + (self.requests.computed if computed is None else computed)
        if self.role is Role.Aggregated:
            return self.passes.drained(tokens, load.sequences, load.kv_tokens)
        return self.passes.drained(tokens)

    def itl(self, load: EngineLoad) -> float:
        """A pass with the queue in the batch."""
        sequences = min(load.sequences + load.queue, float(self.passes.speed.max_batch))
        return self.pass_seconds(sequences, load.kv_tokens + load.queue * self.requests.prompt)

    def pass_seconds(self, sequences: float, kv_tokens: float) -> float:
        """A pass of so many sequences; in an aggregated engine on average, prompts included."""
        if self.role is Role.Aggregated:
            return self.passes.mean_pass(self.requests, sequences, kv_tokens)
        return self.passes.decode(sequences, kv_tokens)


class Correction:
    """The smoothed factor from the performance model's passes to the measured ones, of all engines of a pool."""

    def __init__(self) -> None:
        """Nothing was measured yet: the model is right."""
        self.factor = 1.0

    def look(self, view: PoolView, requests: Requests) -> None:
        """Take in what an observation shows."""
        ratios = _prompt_ratios(view, requests) if view.role is Role.Prefill else _token_ratios(view, requests)
        if ratios:
            found = min(ratios) if view.role is Role.Prefill else median(ratios)
            found = min(_MOST_FACTOR, max(_LEAST_FACTOR, found))
            self.factor += _NEWEST_WEIGHT * (found - self.factor)


def _token_ratios(view: PoolView, requests: Requests) -> list[float]:
    """Measured over modelled time of a token, of each engine that decodes."""
    model = EngineModel(ForwardPass(view.speed), requests, view.role)
    ratios = []
    for pod in busy(view):
        load = EngineLoad.of(view, pod)
        if load is not None and is_sane(pod.tpot_mean) and pod.tpot_mean > 0:
            ratios.append(pod.tpot_mean / model.pass_seconds(load.sequences, load.kv_tokens))
    return ratios


def _prompt_ratios(view: PoolView, requests: Requests) -> list[float]:
    """Measured over modelled time of a prompt, of each engine without a queue; the least has waited least."""
    own = ForwardPass(view.speed).drained(requests.computed)
    idle = [pod for pod in pods(view) if not waiting(pod)]
    return [pod.ttft_mean / own for pod in idle if is_sane(pod.ttft_mean) and pod.ttft_mean > 0]
