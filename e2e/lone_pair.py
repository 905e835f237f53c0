"""Real engines of a pair without cluster, operator and router: a request goes where a test sends it.

Their commands and variables are those that Weft renders, and each stands in a box of its own as in a pod.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from e2e.chaos.eyes import ENGINE_PORT, Counts
from e2e.cluster.boxes import boxes
from e2e.cluster.engine_environment import ensure
from e2e.cluster.node_engines import engine_variables
from e2e.cluster.sidecar import ASKED_OF_PREFILL
from e2e.rendered_pair import rendered_pair
from e2e.team import Endpoint
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from e2e.cluster.boxes import Box
    from e2e.rendered_pair import Rendered
    from e2e.team import Json

START_SECONDS = 600.0  # of three engines at once on two cores: 60 where nothing else runs


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine in a box of its own."""

    box: Box
    rendered: Rendered
    image: Mapping[str, str]

    def start(self) -> None:
        """Start it, without waiting."""
        home = {"HOME": str(self.box.enclosure.processes.directory)}
        self.box.start(self.rendered.command, {**self.image, **self.rendered.environment(self.box.address), **home})

    def replace(self) -> None:
        """Kill it and start another engine in its place; returns once that serves."""
        self.box.kill()
        self.start()
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Return once it serves; raises ProcessFailedError with the end of its log."""
        self.box.process.wait_until(lambda: self.is_healthy, START_SECONDS)

    @property
    def is_healthy(self) -> bool:
        """What its probe asks."""
        try:
            with urllib.request.urlopen(f"http://{self.box.address}:{ENGINE_PORT}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def counts(self) -> Counts:
        """What it says of itself."""
        return Counts.read(self.endpoint.metrics())

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.box.address, ENGINE_PORT)

    def answer(self, prompt: str, tokens: int, told: Json | None = None) -> list[int]:
        """The tokens of an answer of so many; `told` is what a prefill engine said of the prompt's KV."""
        more: Json = {} if told is None else {"kv_transfer_params": told}
        (choice,) = self.endpoint.complete(prompt, tokens, return_token_ids=True, **more)["choices"]
        found: list[int] = choice["token_ids"]
        assert len(found) == tokens
        return found

    def prefill(self, prompt: str) -> Json:
        """Compute a prompt for another engine; gives what that one has to be told."""
        found: Json = self.endpoint.complete(prompt, 1, kv_transfer_params=ASKED_OF_PREFILL)["kv_transfer_params"]
        return found


@contextmanager
def lone_engines(names: Sequence[str]) -> Iterator[dict[str, Engine]]:
    """Engines that serve, by the names given; those whose names begin with `decode` are decode engines."""
    environment = ensure()
    rendered = rendered_pair(environment.model)
    with TemporaryDirectory(prefix="weft-pair-") as text, boxes(Path(text), names) as made:
        image = engine_variables(environment, Path(text))
        engines = [Engine(box, rendered[_role(box.name)], image) for box in made]
        for engine in engines:
            engine.start()
        for engine in engines:
            engine.wait_until_healthy()
        yield {engine.box.name: engine for engine in engines}


def _role(name: str) -> Role:
    return Role.Decode if name.startswith("decode") else Role.Prefill
