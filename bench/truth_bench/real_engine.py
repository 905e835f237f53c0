"""The engine of the end-to-end suite, vLLM on the CPU with a tiny Llama, as one process of this machine."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.truth_bench.series import Replica
from e2e.cluster.engine_environment import ensure
from e2e.cluster.node_engines import container_environment
from e2e.cluster.ports import free_port
from e2e.cluster.processes import Supervisor
from e2e.kv_cache import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SEATS, STEP_TOKENS, CONTEXT = 16, 2048, 1024
OPTIONS = (
    *("--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching"),
    *("--max-model-len", f"{CONTEXT}", "--max-num-seqs", f"{SEATS}", "--max-num-batched-tokens", f"{STEP_TOKENS}"),
)
_START_SECONDS, _ANSWER_SECONDS, _GRACE_SECONDS = 240.0, 5.0, 20.0


@dataclass(frozen=True, slots=True)
class RealEngine:
    """Where it answers, which version it is, and what it has room for."""

    url: str
    version: str
    replica: Replica


@contextmanager
def real_engine() -> Iterator[RealEngine]:
    """Started, asked until it is healthy, and ended with the block; the first time its environment is built."""
    environment, url = ensure(), f"http://127.0.0.1:{free_port()}"
    with TemporaryDirectory(prefix="weft-engine-") as folder:
        processes = Supervisor(Path(folder), container_environment(environment) | {"VLLM_NO_USAGE_STATS": "1"})
        try:
            host, port = url.removeprefix("http://").split(":")
            where = ("--host", host, "--port", port, "--served-model-name", "tiny")
            command = (environment.venv / "bin" / "vllm", "serve", environment.model, *where, *OPTIONS)
            engine = processes.start("engine", command, grace_seconds=_GRACE_SECONDS)
            engine.wait_until(lambda: _got(f"{url}/health") is not None, _START_SECONDS)
            room = blocks_of(_got(f"{url}/metrics") or "").all_tokens
            yield RealEngine(url, environment.versions["vllm"], Replica(room, SEATS, STEP_TOKENS))
        finally:
            processes.stop_all()


def _got(url: str) -> str | None:
    """What an address answers; None where nobody is there yet."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - our own engine
            return bytes(answer.read()).decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None
