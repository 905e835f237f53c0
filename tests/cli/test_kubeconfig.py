"""A kubeconfig that leads nowhere is told with what is wrong in it, by commands that read a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.terminal import weft, written

if TYPE_CHECKING:
    from pathlib import Path

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
HINT = "get it from\n  your administrator"


def kubeconfig(folder: Path, user: Any) -> str:  # noqa: ANN401 - whatever somebody wrote
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    return written(folder / "kubeconfig", content)


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ({"command": "no-such-plugin"}, ("'no-such-plugin'", "No such file or directory", ": install it")),
        ({"command": "no-such-plugin", "installHint": HINT}, (": get it from your administrator",)),
        ({"command": "false", "installHint": HINT}, ("'false' (process returned 1): run it by hand, or log in again",)),
        ({"command": "sh", "args": ["-c", "echo expired >&2; exit 3"]}, ("(process returned 3. expired)",)),
        ({"command": "echo", "args": ["hello"]}, ("'echo' (failed to decode process output",)),
    ],
    ids=["missing", "hint", "fails", "says why", "no credentials"],
)
def test_a_credential_plugin_that_fails_is_named_with_what_it_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    plugin: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    """The client logs that and goes on without credentials, so that the server would be blamed."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"exec": {**EXEC, **plugin}}))
    ending = weft("fabric")
    assert ending.sentence.startswith(f"weft: context 'here' of kubeconfig {tmp_path}/kubeconfig gets no credentials")
    assert all(each in ending.sentence for each in words)
    assert (3, "") == (ending.code, capfd.readouterr().err)


@pytest.mark.parametrize("user", ["text", ["a"], {"exec": "text"}, {"exec": {}}, None])
def test_a_user_that_is_none_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: object) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, user))
    ending = weft("fabric")
    assert ending.sentence.startswith("weft: ")
    assert 3 == ending.code


def test_a_broken_kubeconfig_is_told_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nclusters: [\n")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert f"kubeconfig {file} cannot be used (line 3, column 1: " in weft("fabric").sentence


def test_a_folder_is_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert f"{tmp_path} is a folder, and no kubeconfig: set KUBECONFIG to one that exists" in weft("fabric").sentence
