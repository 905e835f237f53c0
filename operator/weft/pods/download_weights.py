"""Download a repository of Hugging Face into the cache of whoever comes next, and tell how far that is.

The init container of an engine's pod, in the engine's image: Python 3.10 or later with huggingface_hub, which finds
endpoint, token and cache in its environment. Arguments: repository, port, and revision unless it is the default branch.
While it runs, GET of any path says in Prometheus' format how many bytes there are and how many there will be.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TRIES, FIRST_PAUSE_SECONDS = 5, 5.0
TOLD_SECONDS = 30.0
GIGA = 1e9
OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}
# The same weights in other formats: engines take the safetensors where there are some.
OTHERS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack", "*.onnx*", "*.ot", "*.tflite", "*.mlmodel")
COPIES = ("original/*", "metal/*", "onnx/*", "coreml/*", "openvino/*")


@dataclass(frozen=True)
class Expected:
    """What will be there: the folder of blobs, and how many bytes each has, by name."""

    blobs: Path
    sizes: dict[str, int]

    def there(self) -> int:
        """Bytes that have come, whoever brings them; of a file that comes, as many as lie on the disk."""
        found: dict[str, int] = {}
        for path in self.blobs.glob("*"):
            name = path.name.partition(".")[0]
            if name in self.sizes:
                found[name] = max(found.get(name, 0), min(_on_disk(path), self.sizes[name]))
        return sum(found.values())

    def told(self) -> str:
        """In Prometheus' format."""
        known = {"downloaded": self.there(), "total": sum(self.sizes.values())}
        lines = (f"# TYPE weft_weights_{name}_bytes gauge\nweft_weights_{name}_bytes {known[name]}\n" for name in known)
        return "".join(lines)


def _on_disk(path: Path) -> int:
    """Bytes of a file, without the holes of one that is written in several places at once; 0 once it was renamed."""
    with suppress(OSError):
        seen = path.stat()
        return seen.st_size if path.suffix != ".incomplete" else min(seen.st_size, 512 * seen.st_blocks)
    return 0


def ignored(names: list[str]) -> list[str]:
    """Patterns of files that no engine reads."""
    return [*OTHERS, *COPIES] if any(name.endswith(".safetensors") for name in names) else [*COPIES]


def expected(repository: str, revision: str | None) -> tuple[Expected, list[str]]:
    """What a revision has, and the patterns of what is left out."""
    from huggingface_hub import HfApi, constants  # noqa: PLC0415 - it is slow, and the port answers before
    from huggingface_hub.file_download import repo_folder_name  # noqa: PLC0415 - as above
    from huggingface_hub.utils import filter_repo_objects  # noqa: PLC0415 - as above

    files = HfApi().model_info(repository, revision=revision, files_metadata=True).siblings
    left_out = ignored([file.rfilename for file in files])
    wanted = filter_repo_objects(files, ignore_patterns=left_out, key=lambda file: file.rfilename)
    sizes = {(file.lfs.sha256 if file.lfs else file.blob_id): file.size or 0 for file in wanted}
    folder = repo_folder_name(repo_id=repository, repo_type="model")
    return Expected(Path(constants.HF_HUB_CACHE) / folder / "blobs", sizes), left_out


class Progress(ThreadingHTTPServer):
    """Answers from the first moment on: with nothing as long as nothing is known."""

    daemon_threads = True
    expected: Expected | None = None


class Answer(BaseHTTPRequestHandler):
    """One answer."""

    def do_GET(self) -> None:
        known = self.server.expected if isinstance(self.server, Progress) else None
        text = (known.told() if known is not None else "").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - as in http.server
        """Nobody reads who asked."""


def serve(port: int) -> Progress:
    """Tell progress at a port until the process ends."""
    server = Progress(("", port), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def report(known: Expected) -> None:
    """Say in the log, every now and then, how far it is."""
    while True:
        total = sum(known.sizes.values())
        print(f"{known.there() / GIGA:.2f} of {total / GIGA:.2f} GB", flush=True)  # noqa: T201 - the log is for people
        time.sleep(TOLD_SECONDS)


def download(repository: str, revision: str | None, server: Progress) -> None:
    """All of it, once."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - it is slow, and the port answers before

    known, left_out = expected(repository, revision)
    if server.expected is None:
        threading.Thread(target=report, args=(known,), daemon=True).start()
    server.expected = known
    snapshot_download(repository, revision=revision, ignore_patterns=left_out)


def is_final(error: Exception) -> bool:
    """Whether it will be the same in a minute: a refusal, or a disk that is full or not ours."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    refused = status is not None and 400 <= status < 500 and status not in {408, 429}  # noqa: PLR2004 - HTTP's ranges
    return refused or (isinstance(error, OSError) and error.errno in OF_THE_DISK)


def main() -> int:
    """Try a few times; the last line says why it failed."""
    repository, port, *more = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))  # which a first process would not heed
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    server = serve(int(port))
    for tried in range(1, TRIES + 1):
        try:
            download(repository, more[0] if more else None, server)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next try may work
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
            if is_final(error) or tried == TRIES:
                print(f"cannot download {repository}: {why}", flush=True)  # noqa: T201 - the kubelet reads it
                return 1
            print(f"try {tried} of {TRIES} failed, {why}", flush=True)  # noqa: T201 - as above
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (tried - 1))
        else:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
