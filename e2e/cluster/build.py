"""Finds the binaries of the cluster, and builds what is missing, once per version, with the ordinary Go client.

Order of search: the cache, `$KUBEBUILDER_ASSETS`, for kubectl the PATH, and last a build into the cache.
The first build of everything takes about 17 minutes on two cores with nothing cached.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from e2e.cluster.binaries import KUBERNETES_COMMANDS, Binary, known_binaries
from e2e.cluster.processes import tied_to_parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROGRESS_INTERVAL_SECONDS = 15.0  # between lines when nobody watches a terminal
ERROR_LINES = 30


class BinariesMissingError(RuntimeError):
    """Binaries are missing and there is no Go to build them with."""


class BuildFailedError(RuntimeError):
    """Go could not build a binary; says which, and shows the end of its output."""


def cache_directory() -> Path:
    """Return the user's cache folder: `$WEFT_CACHE`, `$XDG_CACHE_HOME/weft` or `~/.cache/weft`."""
    if chosen := os.environ.get("WEFT_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "weft"


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Return where each named binary is, after building those that are nowhere.

    Raises BinariesMissingError without Go, BuildFailedError when a build fails, KeyError for an unknown name.
    """
    wanted = [known_binaries()[name] for name in dict.fromkeys(names)]
    found = _found(wanted)
    missing = [binary for binary in wanted if binary.name not in found]
    if missing and shutil.which("go") is None:
        raise BinariesMissingError(_advice(missing))
    for position, binary in enumerate(missing, start=1):
        found[binary.name] = _build_once(binary, f"{binary.name} ({position} of {len(missing)})")
    return {binary.name: found[binary.name] for binary in wanted}


def cached_path(binary: Binary) -> Path:
    """Return where the cache keeps a binary, there or not."""
    return cache_directory() / "binaries" / binary.component.folder_name / binary.name


def _found(wanted: list[Binary]) -> dict[str, Path]:
    assets = _from_assets([binary.name for binary in wanted])
    places = {binary.name: (cached_path(binary), assets.get(binary.name), _on_path(binary)) for binary in wanted}
    candidates = {name: [path for path in paths if path and os.access(path, os.X_OK)] for name, paths in places.items()}
    return {name: paths[0] for name, paths in candidates.items() if paths}


def _from_assets(names: list[str]) -> dict[str, Path]:
    """Return what `$KUBEBUILDER_ASSETS` holds; Kubernetes' own commands all or none, so that versions agree."""
    if not (folder := os.environ.get("KUBEBUILDER_ASSETS")):
        return {}
    held = {name: Path(folder) / name for name in names if os.access(Path(folder) / name, os.X_OK)}
    kubernetes = [name for name in names if name in KUBERNETES_COMMANDS]
    if all(name in held for name in kubernetes):
        return held
    return {name: path for name, path in held.items() if name not in KUBERNETES_COMMANDS}


def _on_path(binary: Binary) -> Path | None:
    """Return a kubectl that is installed: any recent one speaks to any API server."""
    installed = shutil.which("kubectl") if binary.name == "kubectl" else None
    return Path(installed) if installed else None


def _advice(missing: list[Binary]) -> str:
    names = ", ".join(binary.name for binary in missing)
    return (
        f"missing: {names}. Install Go 1.26 or later, and they are built on first use (about 17 minutes on two cores, "
        "once); or set KUBEBUILDER_ASSETS to a folder that holds them."
    )


def _build_once(binary: Binary, title: str) -> Path:
    target = cached_path(binary)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / ".lock", title):
        if not target.is_file():  # else another process built it while we waited
            _discard_halves(binary, target.parent)
            _build(binary, target, title)
    return target


def _build(binary: Binary, target: Path, title: str) -> None:
    half = target.with_name(f".{target.name}.{os.getpid()}.half")
    started = time.monotonic()
    try:
        _run_go(_go_command(binary, half), binary.component.directory, title)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    _say(f"built {title}: {binary.component.version}, in {time.monotonic() - started:.0f} s")


def _discard_halves(binary: Binary, folder: Path) -> None:
    for half in folder.glob(f".{binary.name}.*.half"):
        half.unlink(missing_ok=True)


def _go_command(binary: Binary, output: Path) -> list[str]:
    flags = ["-v", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", binary.component.linker_flags]
    return ["go", "build", *flags, "-o", str(output), binary.package]


def _run_go(command: list[str], directory: Path, title: str) -> None:
    # The compiler collects garbage half as often: memory is there, two cores are not.
    environment = {"GOGC": "400", **os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    process = subprocess.Popen(
        tied_to_parent(command), cwd=directory, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        output = _follow(process, title)
        if process.wait() != 0:
            raise BuildFailedError(f"building {title} failed:\n" + "\n".join(output[-ERROR_LINES:]))
    finally:
        process.kill()  # nothing after a build; after Ctrl-C the builder
        process.wait()


def _follow(process: subprocess.Popen[str], title: str) -> list[str]:
    """Show how far Go is (it names each package when compiled) and return what it said."""
    output: list[str] = []
    started = shown = time.monotonic()
    _say(f"building {title}", passing=True)
    with process.stderr or contextlib.nullcontext(()) as lines:
        for line in lines:
            output.append(line.rstrip())
            if time.monotonic() - shown > (1.0 if sys.stderr.isatty() else PROGRESS_INTERVAL_SECONDS):
                shown = time.monotonic()
                _say(f"building {title}: {len(output)} packages, {shown - started:.0f} s", passing=True)
    return output


@contextlib.contextmanager
def _alone(lock: Path, title: str) -> Iterator[IO[bytes]]:
    """Hold the lock file; the system frees it when its holder dies."""
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process that builds beside {title}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _say(line: str, *, passing: bool = False) -> None:
    """Print a line; on a terminal a passing one is overwritten by the next."""
    terminal = sys.stderr.isatty()
    print(
        f"\r\033[K{line}" if terminal else line, end="" if terminal and passing else "\n", file=sys.stderr, flush=True
    )
