"""How `sglang-router` is asked to forget an engine: `GET /workers` tells its id, `DELETE /workers/{id}` removes it.

Tried with release 0.3.2 on loopback: the answer is 202, the worker is out of the list within 0.1 s, streams that it
serves run on to their end, and nobody chooses it again. Its discovery remembers pods that it has seen and does not add
the worker again; a router that starts anew does, while the pod is Ready and nobody deletes it.
"""

from __future__ import annotations

import json
from typing import Any

WORKERS = "/workers"
_SCHEME, _RANK = "://", "@"  # http://10.0.0.1:30000, followed by @2 for the second data-parallel rank of one engine


def path_of(worker_id: str) -> str:
    """The path at which a worker is deleted."""
    return f"{WORKERS}/{worker_id}"


def ids_at(answer: bytes, worker: str) -> tuple[str, ...]:
    """Ids of the workers at an address (`host:port`) in an answer to `GET /workers`; `ValueError` for anything else."""
    told = _read(answer)
    workers = told.get("workers") if isinstance(told, dict) else None
    if not isinstance(workers, list):
        raise ValueError("its answer lists no workers")  # noqa: TRY004 - data, not a type of ours
    return tuple(_word(each, "id") for each in workers if _address(_word(each, "url")) == worker)


def _read(answer: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(answer)
    except RecursionError:  # lists in lists, thousands of them
        raise ValueError("its answer is nested too deep") from None


def _word(worker: Any, name: str) -> str:  # noqa: ANN401 - JSON
    word = worker.get(name) if isinstance(worker, dict) else None
    if not isinstance(word, str) or not word:
        raise ValueError(f"its answer lists a worker without {name}")
    return word


def _address(url: str) -> str:
    """The `host:port` of a worker's URL."""
    return url.rpartition(_SCHEME)[2].partition(_RANK)[0].rstrip("/")
