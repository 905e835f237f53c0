"""What cannot be done is told in one sentence on stderr that says what to do, with its documented exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.terminal import half, node, pool, shell, split, weft, written

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOYMENT = b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
NEIGHBOUR = b"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: web}\n"
NUMBERED = b"apiVersion: weft.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: 5}\n"
NAMELESS = b"apiVersion: weft.dev/v1alpha1\nkind: InferencePool\nmetadata: here\n"
ELSEWHERE = {**split("b"), "metadata": {"name": "b", "namespace": "prod"}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the input is empty"),
        (b"a: [b", "is neither YAML nor JSON: line "),
        (b"when: !!int soon", "is neither YAML nor JSON"),
        (b"kind: [InferencePool]\napiVersion: weft.dev/v1alpha1\n", "weft.dev/v1alpha1 has no such kind"),
        (b"kind: List\nitems: [3]\n", "items in document 1 of"),
        (NUMBERED, "metadata.name and metadata.namespace of InferencePool 5 must be quoted strings"),
        (b"\x80\x81\x82", "is not text"),
        (b"- a\n- b\n", "is a list, not a Kubernetes object"),
        (b"{}\n---\nhello [bold]there[/nope]\n", "is a string, not a Kubernetes object"),
        (b"{" + b'"a": [' * 100_000, "is nested too deep"),
        (DEPLOYMENT, "only apps/v1 Deployment"),
        (NEIGHBOUR, "only inference.networking.k8s.io/v1 InferencePool"),
        (NAMELESS, "metadata.name"),
        (yaml.safe_dump(pool(bogus=3)).encode(), "spec.bogus: unknown field"),
        (yaml.safe_dump_all([pool(), pool()]).encode(), "InferencePool/chat appears twice"),
        (
            yaml.safe_dump_all([split("b"), pool("b-decode")]).encode(),
            "has the name of a half of PDSplit/b: rename one",
        ),
        (
            yaml.safe_dump(half("b-decode", of="b")).encode(),
            "half of PDSplit/b in namespace default, which is not in the input",
        ),
        (
            yaml.safe_dump_all([pool(), half("b-decode", of="b")]).encode(),
            "InferencePool/b-decode is a half of PDSplit/b",
        ),
        (
            yaml.safe_dump_all([ELSEWHERE, half("b-decode", of="b")]).encode(),
            "half of PDSplit/b in namespace default, which is not in the input: add it",
        ),
        (yaml.safe_dump(pool(slo={"ttft": {"p95": "soon"}})).encode(), "spec.slo.ttft.p95"),
    ],
    ids=[
        "empty",
        "no YAML",
        "no number",
        "a list of kinds",
        "a List of numbers",
        "a number for a name",
        "binary",
        "a list",
        "a text",
        "too deep",
        "a Deployment",
        "another InferencePool",
        "no name",
        "unknown field",
        "twice",
        "the name of a half",
        "a half alone",
        "a half beside another pool",
        "a half beside a split of another namespace",
        "no duration",
    ],
)
def test_wrong_input_ends_with_2_and_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "pool.yaml"
    file.write_bytes(content)
    ending = weft("plan", "-f", str(file))
    assert words in ending.sentence
    assert (ending.code, ending.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan",), "give either --file with resources, or --model with --rate"),
        (("plan", "-f", "missing.yaml"), "cannot read missing.yaml: No such file or directory"),
        (("plan", "-f", "/"), "cannot read /: Is a directory; name the files in it"),
        (("plan", "-f", "https://a/b.yaml"), "https://a/b.yaml is no file, and nothing is fetched: give what `curl`"),
        (("plan", "-f", "/dev/zero"), "larger than 256 MiB"),
        (("plan", "-f", "a\0b"), "cannot read"),
        (("plan", "-f", "-", "--fabric", "-"), "standard input can be read once"),
        (("plan", "-f", "-", "--fabric", "missing.yaml"), "cannot read missing.yaml"),
        (("plan", "-f", "-", "--fabric", "nodes.yaml", "--context", "c"), "exclude each other"),
        (("plan", "-f", "-", "-o", "xml"), "'xml' is not one of"),
        (("explain", "Deployment/web"), "write InferencePool/NAME or PDSplit/NAME"),
        (("explain", "wpool/"), "write InferencePool/NAME or PDSplit/NAME"),
        (("explain", "wpool/chat", "chat"), "write InferencePool/NAME or PDSplit/NAME"),
        (("explain", "wpool/.."), "write InferencePool/NAME or PDSplit/NAME"),
        (("run", "--port", "soon"), "must be a whole number; see `weft run --help`"),
        (("top", "--interval", "3d"), "'3d' is no time: write seconds, or for example 300ms, 90s, 2m or 1h30m; see"),
        (("plan", "-f", ""), "cannot read ''"),
        (("weave",), "there is no command 'weave': there are plan, simulate"),
        (("crds", "/proc/crds"), "name a folder that you may write to"),
    ],
    ids=lambda value: " ".join(value).replace("\0", "NUL") if isinstance(value, tuple) else "",
)
def test_wrong_arguments_end_with_2_and_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    ending = weft(*arguments, stdin=yaml.safe_dump(pool()))
    assert words in ending.sentence
    assert (ending.code, ending.out) == (2, "")


def test_a_fabric_without_nodes_is_wrong_input(tmp_path: Path) -> None:
    ending = weft("fabric", "-f", written(tmp_path / "nodes.yaml", {"kind": "Secret"}))
    assert "holds no Node" in ending.sentence
    assert 2 == ending.code


COMMANDS = (
    ("explain", "wpool/chat"),
    ("explain", "wpool", "chat"),
    ("top",),
    ("fabric",),
    ("plan", "--drain", "board-0"),  # about what runs, so that no empty cluster stands in for it
    ("run", "--port", "0"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no kubeconfig at"),
        ("a: [", "cannot be used"),
        ("just text", "cannot be used"),
        ("", "cannot be used"),
        ("{apiVersion: v1, kind: Config, contexts: []}", "no current context"),
    ],
    ids=["missing", "no YAML", "a text", "empty", "without contexts"],
)
def test_a_kubeconfig_that_cannot_be_used_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, words: str, command: tuple[str, ...]
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    ending = weft(*command)
    assert words in ending.sentence
    assert str(file) in ending.sentence
    assert 3 == ending.code


def test_a_context_that_is_not_there_is_named_beside_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", _kubeconfig(tmp_path, "https://127.0.0.1:1"))
    for command in (("fabric",), ("plan", "-f", "-"), ("run",)):
        ending = weft(*command, "--context", "elsewhere", stdin=yaml.safe_dump(pool()))
        assert "no context 'elsewhere'" in ending.sentence
        assert "it has here" in ending.sentence
        assert 3 == ending.code


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("https://127.0.0.1:1", "does not answer (Connection refused)"),
        ("https://weft.invalid", "does not answer ("),
    ],
    ids=["refused", "unknown host"],
)
def test_a_cluster_that_does_not_answer_ends_with_3_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, words: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", _kubeconfig(tmp_path, server))
    monkeypatch.setenv("NO_PROXY", "*")
    for command in (("explain", "wpool/chat"), ("top",), ("fabric",), ("plan", "-f", "-", "--context", "here")):
        ending = weft(*command, stdin=yaml.safe_dump(pool()))
        assert words in ending.sentence
        assert server in ending.sentence
        assert 3 == ending.code


def test_a_server_without_tls_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _plain_server() as port:
        monkeypatch.setenv("KUBECONFIG", _kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))
        ending = weft("fabric")
    assert "cannot be trusted" in ending.sentence or "does not answer" in ending.sentence
    assert 3 == ending.code


def test_a_reader_that_leaves_early_gets_no_complaint() -> None:
    """As `weft plan ... | head -1` does."""
    command = [sys.executable, "-m", "weft.cli", "plan", "-f", "-"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command, input=yaml.safe_dump(pool()).encode(), stdout=writing, stderr=subprocess.PIPE, check=False, timeout=50
    )
    os.close(writing)
    assert (0, b"") == (done.returncode, done.stderr.replace(b"weft: planning ...\n", b""))


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "-h"), ("--version",), ()])
def test_a_reader_of_the_help_that_leaves_early_gets_no_complaint(arguments: tuple[str, ...]) -> None:
    """Its libraries say 1, which would read as an answer."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli", *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=50
    )
    os.close(writing)
    assert (0, b"") == (done.returncode, done.stderr)


def test_an_interrupt_ends_quietly_with_130(tmp_path: Path) -> None:
    """While a command waits for a file that nobody writes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "weft.cli", "plan", "-f", str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        with fifo.open("wb"):  # opens once the command reads
            while running.poll() is None:  # one that comes between opening and reading waits for the read
                running.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(2)
        out, told = running.communicate()
        assert (130, b"") == (running.returncode, out)
        assert {f"weft: reading {fifo} ..."} >= set(told.decode().splitlines())  # if the machine is slow


INTERRUPTED_WHILE_IT_LOADS = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "weft.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, {before})
from weft.cli.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("before", "code"), [("signal.default_int_handler", 130), ("signal.SIG_IGN", 0)], ids=["as usual", "ignored"]
)
def test_an_interrupt_while_the_commands_load_is_no_traceback(before: str, code: int) -> None:
    """Nor is it one where a shell has the signal ignored, as `nohup` does: the command goes on."""
    command = [sys.executable, "-c", INTERRUPTED_WHILE_IT_LOADS.format(before=before), "--version"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=50)
    assert (code, b"") == (done.returncode, done.stderr)


def test_once_the_commands_are_loaded_an_interrupt_is_as_usual() -> None:
    """What they hold is given back then: a spinner, a file that is written."""
    code = "import signal; from weft.cli.__main__ import main; signal.signal(2, signal.default_int_handler); main()"
    look = "import weft.cli.main as m; m.app = lambda: print(__import__('signal').getsignal(2).__name__); "
    done = subprocess.run([sys.executable, "-c", look + code], capture_output=True, check=False, timeout=50)
    assert (0, b"default_int_handler\n") == (done.returncode, done.stdout)


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_output_is_no_traceback(closed: int) -> None:
    """As a shell's `>&-` and `2>&-` leave it."""
    command = f"exec {closed}>&-; exec {sys.executable} -m weft.cli fabric -f -"
    nodes = yaml.safe_dump(node("board-0")).encode()
    done = subprocess.run(["/bin/sh", "-c", command], input=nodes, capture_output=True, check=False, timeout=50)
    assert (0, b"") == (done.returncode, done.stderr)
    assert (b"" if closed == 1 else b"fabric: 1 NVLink domain") == done.stdout[:23]


def test_a_closed_input_is_an_empty_one() -> None:
    """As a shell's `<&-` leaves it."""
    command = f"exec <&-; exec {sys.executable} -m weft.cli fabric -f -"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, timeout=50)
    assert (2, b"") == (done.returncode, done.stdout)
    assert done.stderr.startswith(b"weft: standard input holds no Node: ")


def test_a_full_disk_is_no_traceback() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "weft.cli", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=50,
        )
    assert b"weft: cannot write the answer: No space left on device\n" == done.stderr
    assert 2 == done.returncode


def test_help_names_the_exit_codes() -> None:
    for arguments in ((), ("--help",), ("-h",)):
        ending = weft(*arguments)
        assert 0 == ending.code
        assert "Exit codes" in ending.out


def test_a_fault_of_ours_says_so_and_keeps_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 would read as an answer."""

    def broken(*_: Any) -> None:  # noqa: ANN401 - whatever it is called with
        raise ZeroDivisionError

    monkeypatch.setattr("weft.cli.plan.command.plan_all", broken)
    ending = weft("plan", "-f", "-", stdin=yaml.safe_dump(pool()))
    assert 4 == ending.code
    assert "ZeroDivisionError" in ending.err
    assert ending.err.splitlines()[-1].startswith("weft: this is a fault of Weft")


def test_an_ascii_terminal_still_shows_the_fabric(tmp_path: Path) -> None:
    file = written(tmp_path / "nodes.yaml", node("board-0"))
    ending = shell("fabric", "-f", file, PYTHONIOENCODING="ascii")
    assert 0 == ending.code
    assert "........  8 of 8 free" in ending.out
    assert "?" not in ending.out


def _kubeconfig(folder: Path, server: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    return written(folder / "kubeconfig", content)


@contextlib.contextmanager
def _plain_server() -> Iterator[int]:
    """Something that answers a TLS hello with plain text, once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
