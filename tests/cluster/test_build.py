"""Binaries are found or built once, whole or not at all, and a person is told what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster import build
from e2e.cluster.binaries import known_binaries

pytestmark = pytest.mark.timeout(60)
REPOSITORY = Path(__file__).parents[2]

# Stands for Go: notes that it was called, and writes the file that -o names.
GO = """#!/bin/sh
echo called >> "$GO_CALLS"
echo k8s.io/kubernetes/cmd/example >&2
[ -z "$GO_FAILS" ] || { echo "undefined: everything" >&2; exit 1; }
sleep 0.2
while [ "$1" != "-o" ]; do shift; done
echo '#!/bin/sh' > "$2" && chmod +x "$2"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and nothing but a shell on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "sleep", "chmod"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def _install(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def _calls(machine: Path) -> int:
    calls = machine / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_without_go_the_error_names_what_is_missing_and_what_to_install(machine: Path) -> None:
    with pytest.raises(build.BinariesMissingError, match=r"missing: etcd, kwok\. Install Go"):
        build.ensure(["etcd", "kwok"])


def test_what_is_built_once_is_not_built_again(machine: Path) -> None:
    _install(machine / "tools" / "go", GO)
    first = build.ensure(["etcd"])
    assert first == build.ensure(["etcd"])
    assert first["etcd"].is_file()
    assert _calls(machine) == 1


def test_a_failed_build_shows_what_go_said_and_leaves_nothing(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(machine / "tools" / "go", GO)
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(build.BuildFailedError, match=r"(?s)etcd .*undefined: everything"):
        build.ensure(["etcd"])
    assert not build.cached_path(known_binaries()["etcd"]).exists()


def test_the_half_of_a_killed_build_is_swept_away(machine: Path) -> None:
    _install(machine / "tools" / "go", GO)
    folder = build.cached_path(known_binaries()["etcd"]).parent
    half = _install(folder / ".etcd.123.half", "half")
    build.ensure(["etcd"])
    assert not half.exists()
    assert {".lock", "etcd"} == {each.name for each in folder.iterdir()}


def test_two_processes_do_not_build_the_same_twice(machine: Path) -> None:
    _install(machine / "tools" / "go", GO)
    command = [sys.executable, "-c", "from e2e.cluster import build; build.ensure(['etcd'])"]
    builders = [subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [builder.wait() for builder in builders] == [0, 0]
    assert _calls(machine) == 1


def test_kubebuilder_assets_are_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = {name: _install(machine / "assets" / name) for name in ("etcd", "kube-apiserver")}
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    assert assets == build.ensure(["etcd", "kube-apiserver"])


def test_assets_that_lack_one_kubernetes_binary_lend_none(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server of one version must not meet a newer controller manager."""
    for name in ("etcd", "kube-apiserver"):
        _install(machine / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    with pytest.raises(build.BinariesMissingError, match="missing: kube-apiserver, kube-controller-manager"):
        build.ensure(["etcd", "kube-apiserver", "kube-controller-manager"])


def test_an_installed_kubectl_will_do(machine: Path) -> None:
    installed = _install(machine / "tools" / "kubectl")
    assert {"kubectl": installed} == build.ensure(["kubectl"])


def test_every_component_is_pinned() -> None:
    for binary in known_binaries().values():
        assert binary.component.version.startswith("v")
        assert (binary.component.directory / "go.sum").is_file()
