"""Process 1 of the node's own PID, mount and network namespaces.

Usage: node_init.py DISK. When it is killed, the kernel ends every process in the namespace and drops its mounts,
interfaces and iptables rules. The standard library only: it starts before anything else is known to work.
"""

import signal
import subprocess
import sys
from pathlib import Path

ON_DISK = ("/var/lib", "/var/log")
"""Kept in the node's folder: images, containers, volumes and logs are too large for memory."""
READY = "the namespaces are ready"


def mount(*arguments: str) -> None:
    subprocess.run(("mount", *arguments), check=True)


def replace_folders(disk: Path) -> None:
    """Give the node a /run, /var/lib and /var/log of its own, so that its parts may use their usual paths."""
    mount("--make-rshared", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for target in ON_DISK:
        source = disk / target.strip("/").replace("/", "-")
        source.mkdir(parents=True, exist_ok=True)
        mount("--bind", str(source), target)


def main() -> None:
    replace_folders(Path(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # from here on the kernel reaps orphans that end up here
    sys.stdout.write(READY + "\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
