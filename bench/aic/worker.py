"""A script for the interpreter where aiconfigurator is installed: questions in, answers out, one JSON object a line.

Nothing of Weft is imported here, and whatever aiconfigurator prints goes to stderr.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import logging
import os
import sys
import time
import warnings
from typing import Any

MOST_LETTERS = 400  # of a refusal


def main() -> None:
    """Say which version this is, then answer until there are no more questions."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    api = importlib.import_module("aiconfigurator.cli.api")
    version = importlib.metadata.version("aiconfigurator")
    print(json.dumps({"version": version}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answered(api, json.loads(line))), file=answers, flush=True)


def answered(api: Any, question: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a module that is not here
    """What it says, or why it says nothing; and how long that took, by the clock and in processor time."""
    ask = {"estimate": _estimate, "plan": _plan}[question["call"]]
    begun, used = time.perf_counter(), time.process_time()
    try:
        found = ask(api, question["arguments"])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises: it has no answer
        found = {"refused": f"{type(error).__name__}: {error}"[:MOST_LETTERS]}
    seconds, busy = time.perf_counter() - begun, time.process_time() - used
    return {**found, "seconds": round(seconds, 3), "processor_seconds": round(busy, 3)}


def _estimate(api: Any, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    found = api.cli_estimate(**arguments)
    overfull = bool(found.kv_cache_warning)  # more sequences than its KV cache holds: it says so, and answers
    return {"ttft_ms": float(found.ttft), "tpot_ms": float(found.tpot), "overfull": overfull}


def _plan(api: Any, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Its search over replicas that do both and over replicas apart, as its command `default` does it."""
    return {"chosen": str(api.cli_default(**arguments).chosen_exp)}


if __name__ == "__main__":
    main()
