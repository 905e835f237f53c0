"""From pages that lie to counts: nothing is bought by one, no pool shrinks by one, and no other pool feels it.

Rules of docs/rules.md: S4, S5, F19. Two pools have the same traffic, and the engines of one tell odd things.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from tests.observe.telling import page
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Lie = Callable[[str, str, int], str]  # the page of a pod, at that look

SERIES = series_for(EngineName.VLLM, "0.33.0")
APART_SECONDS = 10.0
SCALING = ScalingSpec(mode=ScalingMode.Auto, min_replicas=1, max_replicas=20, scale_down_delay_seconds=60.0)
FULL = 2.5  # replicas' worth of requests that each pool gets
A_WHILE = 40  # looks


class Traffic:
    """Two pools whose engines are scraped; those of `odd` show what a lie makes of their pages."""

    def __init__(self) -> None:
        self.world = World.of(
            [board(f"b-{index}") for index in range(30)], *(pool(n, pool_spec(8, SCALING)) for n in POOLS)
        )
        self.looks = 0
        self.answered: dict[str, float] = {}
        self.source = DirectSource(clock=lambda: self.looks * APART_SECONDS)
        self.world.turn()
        self.rate = FULL * self.world.decision("odd").status.plan.prediction.capacity  # type: ignore[union-attr]

    def look(self, lie: Lie | None = None) -> None:
        """One collection, and a pass or two."""
        self.looks += 1
        for name in POOLS:
            targets = [self.scraped(pod, self.rate / len(pods), lie) for pods in [self.ready(name)] for pod in pods]
            self.world.observations[f"uid-{name}"] = observe_pool(targets, self.source.windows())
        self.world.turn(2, APART_SECONDS / 2)

    def ready(self, name: str) -> list[str]:
        """Names of pods that answer."""
        pods = (pod for pod in self.world.pods.values() if pod.ready and not pod.terminating and pod.identity)
        return sorted(pod.name for pod in pods if pod.identity and pod.identity.pool_uid == f"uid-{name}")

    def scraped(self, pod: str, rate: float, lie: Lie | None) -> EngineTarget:
        """One engine, once it was asked."""
        self.answered[pod] = self.answered.get(pod, 0.0) + rate * APART_SECONDS
        text = page(round(self.answered[pod]), inside=round(rate))
        told = lie(text, pod, self.looks) if lie is not None and pod.startswith("odd") else text
        if values := parse(told, SERIES.names):
            self.source.remember(pod, values)
        return EngineTarget(pod, "team", pod, "10.0.0.1", 8000, "/metrics", SERIES.names, series=SERIES)

    def counts(self, lie: Lie | None) -> Iterator[tuple[int, int]]:
        """Replicas of both pools for a while."""
        for _ in range(A_WHILE):
            self.look(lie)
            yield self.world.status("odd").desired_replicas, self.world.status("sane").desired_replicas


POOLS = ("odd", "sane")


def telling(names: str, value: str, every: int = 1) -> Lie:
    """Series of these names show that value, in each look, or in one of some."""

    def lie(text: str, _: str, look: int) -> str:
        return (
            re.sub(rf"^((?:{names})\S*) \S+$", rf"\1 {value}", text, flags=re.MULTILINE) if look % every == 0 else text
        )

    return lie


def adding(name: str, more: int, every: int) -> Lie:
    """Series of that name show so much more in one look of some."""

    def lie(text: str, _: str, look: int) -> str:
        def changed(found: re.Match[str]) -> str:
            return f"{found[1]} {float(found[2]) + more * (look % every == 0)}"

        return re.sub(rf"^({name}\S*) (\S+)$", changed, text, flags=re.MULTILINE)

    return lie


def cut_off(text: str, _: str, look: int) -> str:
    """Prompts looked longer by a look's worth, as their tokens were told for longer than their number."""
    return text[: text.index("vllm:request_prompt_tokens_count")] if look % 4 == 0 else text


def changing_labels(text: str, _: str, look: int) -> str:
    return re.sub(r"^(vllm:num_requests_\w+{)", rf'\1request="{look}",', text, flags=re.MULTILINE)


def lies() -> dict[str, Lie]:
    """What the engines of a pool may tell."""
    kept: dict[str, str] = {}
    return {
        "an empty page": lambda *_: "",
        "a page of a proxy": lambda *_: "<html><body>Sign in</body></html>\n",
        "of another engine": lambda text, *_: text.replace("vllm:", "sglang:"),
        "an old page": lambda text, pod, _: kept.setdefault(pod, text),
        "answers that are no number": telling("vllm:request_success_total", "NaN"),
        "answers beyond counting": telling("vllm:request_success_total", "1e300"),
        "processes in turn": telling("vllm:request_success_total", "7", every=2),
        "answers that leap": telling("vllm:request_success_total", "1e9", every=12),
        "everything leaps": telling("vllm:", "1e9", every=12),
        "waiting beyond counting": telling("vllm:num_requests_waiting", "1e300"),
        "a crowd that waits in one scrape": adding("vllm:num_requests_waiting", 90_000, every=12),
        "a leap that falls back": adding("vllm:request_success_total", 50_000, every=12),
        "a leap of a histogram": adding("vllm:request_prompt_tokens_(?:count|sum|bucket)", 50_000, every=12),
        "everything twice": lambda text, *_: text + re.sub(r" \S+$", " 0", text, flags=re.MULTILINE),
        "labels that change": changing_labels,
        "cut off between a sum and its count": cut_off,
        "a crowd": telling("vllm:num_requests_running", "1e7"),
        "negative": telling("vllm:", "-1"),
        "infinite": telling("vllm:", "+Inf"),
        "prompts of nothing": telling("vllm:request_prompt_tokens_sum", "0"),
        "prompts without end": telling("vllm:request_prompt_tokens_sum", "1e300"),
    }


@pytest.fixture(scope="module")
def usual() -> list[tuple[int, int]]:
    """What both pools have where nobody lies."""
    traffic = Traffic()
    return [*traffic.counts(None), *traffic.counts(None)]


@pytest.mark.parametrize("lie", lies())
def test_a_lie_buys_nothing_and_shrinks_nothing(usual: list[tuple[int, int]], lie: str) -> None:
    traffic = Traffic()
    before = list(traffic.counts(None))
    told = list(traffic.counts(lies()[lie]))
    assert usual == [*before, *((sane, sane) for _, sane in told)]  # the other pool is as ever
    assert {count for count, _ in told} == {before[-1][0]}
