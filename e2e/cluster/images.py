"""Container images without a registry: OCI archives written here, for `ctr images import`.

An engine image holds empty folders and links; what real images carry in their layers is mounted into its containers.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PAUSE_TAG = "weft.dev/pause:1"
_HERE = Path(__file__).parent
MERGED_USR = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = ("dev", "etc", "home", "opt", "proc", "root", "run", "sys", "usr", "var")
_ACCOUNTS = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, slots=True)
class ImageDefaults:
    """What a container of an image runs, and with which variables, where its pod does not say."""

    entrypoint: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def pause_image(folder: Path) -> Path:
    """Compile the process that holds a pod's namespaces. Needs gcc."""
    program = _compile("pause.c", folder / "pause", "-static")
    content = layer(lambda tar: tar.add(program, "pause"))
    return archive(folder / "pause.tar", content, (PAUSE_TAG,), ImageDefaults(("/pause",)))


def engine_image(path: Path, tags: Sequence[str], defaults: ImageDefaults) -> Path:
    """An image of empty folders under every tag given: `docker.io/vllm/vllm-openai:v0.32.0`. Knows no user but root."""
    return archive(path, layer(root_folders), tags, defaults)


def program_image(path: Path, program: Path, tags: Sequence[str], environment: Mapping[str, str]) -> Path:
    """An image whose entry point is one file, beside the folders of an engine image."""

    def fill(tar: tarfile.TarFile) -> None:
        root_folders(tar)
        tar.addfile(folder_entry("app"))
        file = _entry(f"app/{program.name}", tarfile.REGTYPE, 0o755)
        file.size = program.stat().st_size
        with program.open("rb") as content:
            tar.addfile(file, content)

    return archive(path, layer(fill), tags, ImageDefaults((f"/app/{program.name}",), environment))


def patient_poll(folder: Path) -> Path:
    """Compile a library to preload into engines; its source says why. Needs gcc."""
    return _compile("patient_poll.c", folder / "patient_poll.so", "-shared", "-fPIC")


def _compile(source: str, target: Path, *flags: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(("gcc", "-O2", *flags, _HERE / source, "-o", target), check=True)
    return target


def root_folders(tar: tarfile.TarFile) -> None:
    """The top of a Debian file system, with nothing in it."""
    for name in _FOLDERS:
        tar.addfile(folder_entry(name))
    tar.addfile(_entry("tmp", tarfile.DIRTYPE, 0o1777))
    for name, target in MERGED_USR.items():
        link = _entry(name, tarfile.SYMTYPE, 0o777)
        link.linkname = target
        tar.addfile(link)
    for name, text in _ACCOUNTS.items():
        file = _entry(name, tarfile.REGTYPE, 0o644)
        file.size = len(text)
        tar.addfile(file, io.BytesIO(text.encode()))


def folder_entry(name: str) -> tarfile.TarInfo:
    """An empty folder that everybody may read."""
    return _entry(name, tarfile.DIRTYPE, 0o755)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    return entry


def layer(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    """What `fill` adds to a tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        fill(tar)
    return buffer.getvalue()


def archive(path: Path, content: bytes, tags: Sequence[str], defaults: ImageDefaults) -> Path:
    """An image of one layer, which `layer` gives, under every tag."""
    path.parent.mkdir(parents=True, exist_ok=True)
    configuration = json.dumps(_configuration(content, defaults)).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIGURATION, configuration),
            "layers": [_descriptor(_LAYER, content)],
        }
    ).encode()
    index = {"schemaVersion": 2, "manifests": [_named(_descriptor(_MANIFEST, manifest), tag) for tag in tags]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{_digest(blob)}": blob for blob in (content, configuration, manifest)}
    with tarfile.open(path, "w") as tar:
        for name, blob in files.items():
            file = _entry(name, tarfile.REGTYPE, 0o644)
            file.size = len(blob)
            tar.addfile(file, io.BytesIO(blob))
    return path


def _configuration(content: bytes, defaults: ImageDefaults) -> dict[str, Any]:
    variables = [f"{name}={value}" for name, value in defaults.environment.items()]
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(defaults.entrypoint), "Env": variables, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(content)}"]},
    }


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{_digest(content)}", "size": len(content)}


def _named(descriptor: dict[str, Any], tag: str) -> dict[str, Any]:
    return {**descriptor, "annotations": {"io.containerd.image.name": tag}}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
