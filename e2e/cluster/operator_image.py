"""The operator's image without a registry, of the parts that the Dockerfile names: Debian's Python, the lock, Weft.

What Debian's packages hold comes from this machine, which must be a Debian 12, as the base image of the Dockerfile is.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.cluster.build import cache_directory
from e2e.cluster.images import MERGED_USR, ImageDefaults, archive, folder_entry, layer, root_folders

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
REQUIREMENTS = REPOSITORY / "requirements" / "runtime.txt"
PYTHON = "/usr/bin/python3.11"
OPERATOR = ImageDefaults((PYTHON, "-m", "weft.cli"), {"PYTHONPATH": "/app", "HOME": "/tmp"})
DEBIAN_PACKAGES = (
    *("ca-certificates", "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1"),
    *("media-types", "python3.11-minimal", "zlib1g"),
)
NEEDLESS = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/lib/x86_64-linux-gnu/gconv")
GENERATED = ("/etc/ssl/certs/ca-certificates.crt",)


def operator_image(path: Path, tag: str) -> Path:
    """Write the image to `path`. Raises CalledProcessError when a Debian package is not installed."""
    packages = _locked_packages()
    path.parent.mkdir(parents=True, exist_ok=True)

    def fill(tar: tarfile.TarFile) -> None:
        root_folders(tar)
        for name in MERGED_USR.values():
            tar.addfile(folder_entry(name))
        for file in _debian_files():
            tar.add(file, _inside(file), recursive=False)
        tar.add(packages, "app")
        tar.add(REPOSITORY / "operator" / "weft", "app/weft", filter=_without_bytecode)

    return archive(path, layer(fill), (tag,), OPERATOR)


def _locked_packages() -> Path:
    """What requirements/runtime.txt pins, installed for Debian's Python once per content of that file."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = cache_directory() / "operator-image" / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            _install(half)
            half.rename(folder)
    return folder


def _install(folder: Path) -> None:
    sys.stderr.write("operator image: installing what requirements/runtime.txt pins ...\n")
    uv = Path(sys.executable).parent / "uv"
    locked = ("--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS), "--compile-bytecode")
    subprocess.run((uv, "pip", "install", "--quiet", "--python", PYTHON, "--target", folder, *locked), check=True)


def _debian_files() -> Iterator[str]:
    listed = subprocess.run(("dpkg", "--listfiles", *DEBIAN_PACKAGES), check=True, capture_output=True, text=True)
    for name in (*sorted(set(listed.stdout.split("\n"))), *GENERATED):
        file = Path(name)
        deep = name.count("/") > 1  # /lib itself is a link, which the image has already
        if deep and not name.startswith(NEEDLESS) and (file.is_symlink() or file.is_file()):
            yield name


def _inside(name: str) -> str:
    """The path in a tar whose /lib is a link to /usr/lib, as on Debian itself."""
    first, _, rest = name.removeprefix("/").partition("/")
    return f"{MERGED_USR.get(first, first)}/{rest}"


def _without_bytecode(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
