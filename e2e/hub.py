"""A small Hugging Face: one repository, whose files are those of a folder and one of so many zeros, sent slowly.

Runs in a pod as text, with nothing but the standard library. Arguments: repository, folder, port, bytes of zeros, and
bytes a second.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 256 * 1024
REPOSITORY, FOLDER, PORT, ZEROS, PACE = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6])
FILES = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.is_file()}
FILES |= {"zeros.txt": bytes(ZEROS), "pytorch_model.bin": bytes(ZEROS)}  # the latter nobody wants beside safetensors


def described(name: str, content: bytes) -> dict[str, Any]:
    """One file as `siblings` have it."""
    return {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}  # noqa: S324 - as git


class Hub(BaseHTTPRequestHandler):
    """What huggingface_hub asks for."""

    def do_HEAD(self) -> None:
        self.answer(sends=False)

    def do_GET(self) -> None:
        self.answer(sends=True)

    def answer(self, *, sends: bool) -> None:
        path = self.path.partition("?")[0]
        known = [described(name, content) for name, content in FILES.items()]
        if path.startswith(f"/api/models/{REPOSITORY}/tree/"):
            tree = [{"type": "file", "path": each["rfilename"], "oid": each["blobId"], **each} for each in known]
            self.send(json.dumps(tree).encode(), {}, sends=sends)
        elif path.startswith(f"/api/models/{REPOSITORY}"):
            about = {"id": REPOSITORY, "sha": COMMIT, "siblings": known}
            self.send(json.dumps(about).encode(), {}, sends=sends)
        elif path.startswith(f"/{REPOSITORY}/resolve/") and path.rpartition("/")[2] in FILES:
            content = FILES[path.rpartition("/")[2]]
            tag = f'"{hashlib.sha1(content).hexdigest()}"'  # noqa: S324 - as git names a file
            self.send(content, {"ETag": tag, "X-Repo-Commit": COMMIT}, sends=sends)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def send(self, content: bytes, headers: dict[str, str], *, sends: bool) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        for begin in range(0, len(content) if sends else 0, PIECE):
            self.wfile.write(content[begin : begin + PIECE])
            time.sleep(PIECE / PACE)


ThreadingHTTPServer(("", PORT), Hub).serve_forever()
