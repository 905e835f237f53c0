"""Run a command that the kernel kills when the thread that started it ends: `die_with_parent.py PARENT_PID COMMAND...`.

A script of its own, run as `python -I -S`, because the request has to be made in the child and a `preexec_fn`
is not safe in a parent with threads. The request survives the exec, and covers a parent that dies by SIGKILL.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    die_with(parent)
    os.execvp(command[0], command)  # noqa: S606 - the point is to become the command


def die_with(parent: int) -> None:
    """Tie this process to its parent, whose id it was told; a fork does not inherit that."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot tie this process to its parent: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before the request was in place
        sys.exit(1)


if __name__ == "__main__":
    main()
