"""The operator, killed right after each of its writes and started again, for ever.

    python -m tests.scenarios.mortal_operator KUBECONFIG NAMESPACE PORT

It is the shipped operator with the client it always uses. A life ends by SIGKILL when the API server has carried out
its first write, before the operator has read the answer. Every life is a process of its own that remembers nothing,
forked from one that has only imported the code, because importing takes longer than living. Each death prints a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from kubernetes.client import ApiClient

from e2e.cluster.die_with_parent import die_with
from weft.control import Operator, RunOptions
from weft.control.connection import connect

REFUSED = 300  # and above: nothing was written


class MortalClient(ApiClient):
    """Ends the process when the API server has carried out a write."""

    def call_api(self, *request: Any, **options: Any) -> Any:  # noqa: ANN401 - the client's own arguments
        """One request, perhaps the last."""
        answer = super().call_api(*request, **options)
        if request[0] != "GET" and answer.status < REFUSED:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


def live(options: RunOptions) -> None:
    """Run until the first write."""
    client = MortalClient(connect(options).configuration)
    asyncio.run(Operator(options).serve(asyncio.Event(), client))


def live_again_and_again(options: RunOptions) -> None:
    """One life after the other; ends when one does not end by a write."""
    parent = os.getpid()
    while True:
        child = os.fork()
        if child == 0:
            die_with(parent)
            live(options)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"it ended by itself with {os.waitstatus_to_exitcode(status)}")
        print("killed", flush=True)


if __name__ == "__main__":
    where, namespace, listen = sys.argv[1:]
    live_again_and_again(
        RunOptions(
            *(where, None, (namespace,)),
            host="127.0.0.1",
            port=int(listen),
            tick_seconds=1.0,
            metrics_seconds=1.0,
            resync_seconds=1.0,
        )
    )
