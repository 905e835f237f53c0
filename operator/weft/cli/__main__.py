"""The entry point: `weft`, and `python -m weft.cli`. Ctrl-C ends it without a traceback while it still loads."""

from __future__ import annotations

import os
import signal

from weft.cli import INTERRUPTED


def main() -> None:
    """Load the commands and run one; Ctrl-C while they load exits at once, as nothing has begun that must be undone.

    A handler does it, as a `KeyboardInterrupt` would be raised inside the imports of others, who may print or drop it.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # not so where the signal is ignored, as `nohup` and `&` leave it
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from weft.cli.main import app

    signal.signal(signal.SIGINT, usual)
    app()


if __name__ == "__main__":
    main()
