"""How each figure comes about, with everything long left out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import decide, demo, suites
from bench.commands import run
from e2e.cluster.waiting import eventually
from e2e.demo.figures import Figures, peak_resident_bytes

REPOSITORY = Path(__file__).parents[2]
FIGURES = {
    "seconds": 280.0,
    "first_ready_seconds": 31.5,
    "first_ready_after_apply_seconds": 14.0,
    "operator_peak_resident_bytes": 151_000_000,
}


def test_decide_is_held_by_both_clocks() -> None:
    results = decide.measure(passes=4)
    assert [("decide-wall-p99", 100.0), ("decide-processor-p99", 100.0)] == [
        (each.name, each.limit) for each in results
    ]
    for result in results:
        spread = result.details
        assert result.value is not None
        assert 0 < float(spread["p50_ms"]) <= result.value <= float(spread["max_ms"])
        assert {"nodes": 64, "pools": 20, "passes": 4}.items() <= spread.items()


def test_the_demo_is_held_by_its_own_figures() -> None:
    ready, resident = demo.results(FIGURES, None)
    assert (ready.value, ready.limit, ready.passed) == (31.5, 60.0, True)
    assert (resident.value, resident.limit, resident.passed) == (151_000_000, 200e6, True)


@pytest.mark.parametrize(
    ("figures", "problem", "missed"),
    [
        ({**FIGURES, "first_ready_seconds": 61.0}, None, ["demo-first-ready"]),
        ({**FIGURES, "first_ready_seconds": None}, None, ["demo-first-ready"]),
        ({**FIGURES, "operator_peak_resident_bytes": None}, None, ["demo-operator-peak-resident"]),
        ({}, "`demo` ended with code 2", ["demo-first-ready", "demo-operator-peak-resident"]),
        (FIGURES, "`demo` ended with code 1", ["demo-first-ready", "demo-operator-peak-resident"]),
    ],
    ids=["late", "never Ready", "operator gone", "no demo", "failed at its end"],
)
def test_a_demo_that_went_wrong_passes_nothing_it_did_not_show(
    figures: dict[str, float | None], problem: str | None, missed: list[str]
) -> None:
    results = demo.results(figures, problem)
    assert missed == [result.name for result in results if not result.passed]
    assert all(result.problem for result in results if result.value is None)


def test_the_demo_writes_what_the_benchmark_reads(tmp_path: Path) -> None:
    written = tmp_path / "build" / "demo.json"
    figures = Figures(280.0, 31.5, 14.0, 151_000_000, {"chat": 0.971, "idle": None})
    figures.write(written)
    assert all(result.passed for result in demo.results(demo.read(written), None))
    assert demo.read(tmp_path / "none.json") == {}
    assert [value for value, _ in figures.tiles()] == ["97.1%", "-", "32 s", "151 MB"]


def test_the_peak_of_a_process_is_known_until_it_ends() -> None:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        peak = peak_resident_bytes(process.pid)
        assert peak is not None
        assert peak > 10**6
        process.communicate(b"\n")
    assert peak_resident_bytes(process.pid) is None


def test_without_caches_means_every_cache_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/opt/binaries")
    environment = suites.without_caches(tmp_path)
    assert "KUBEBUILDER_ASSETS" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    for cache in ("WEFT_CACHE", "XDG_CACHE_HOME", "PIP_CACHE_DIR", "GOCACHE", "GOMODCACHE"):
        assert environment[cache].startswith(str(tmp_path))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A committed script that says which cache it sees, fails when told so, and is changed without a commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    script = folder / "check"
    script.write_text('#!/bin/sh\necho "cache: $WEFT_CACHE"\ntest ! -e broken\n')
    script.chmod(0o755)
    git = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for words in (["init", "--quiet"], ["add", "check"], ["commit", "--quiet", "--message", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    (folder / "broken").touch()
    return folder


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_a_suite_is_timed_as_it_was_committed_with_the_caches_it_names(
    project: Path,
    cached: bool,  # noqa: FBT001 - the case
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEFT_CACHE", "/home/me/weft")
    (result,) = suites.measure(suites.Suite("check", ("./check",), cached=cached, limit_seconds=30.0), project)
    assert result.passed
    assert len(str(result.details["commit"])) == 12
    printed = capfd.readouterr()
    assert ("cache: /home/me/weft" in printed.err) == cached
    assert printed.out == ""


def test_a_suite_that_fails_is_missed_however_fast(project: Path) -> None:
    (result,) = suites.measure(suites.Suite("check", ("sh", "-c", "exit 3"), cached=True, limit_seconds=30.0), project)
    assert not result.passed
    assert result.problem == "`sh -c exit 3` ended with code 3"


TIDIES_UP = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, lambda *_: (Path("tidied").touch(), sys.exit(0)))
Path("started").touch()
time.sleep(60)
"""
RUN = "import sys; from pathlib import Path; from bench.commands import run; run(sys.argv[2:], Path(sys.argv[1]))"


def test_an_interrupt_reaches_the_command_and_waits_for_its_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path), sys.executable, "-c", TIDIES_UP]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL) as process:
        eventually((tmp_path / "started").exists, "the command runs")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
    assert (tmp_path / "tidied").exists()


def test_a_command_is_timed_to_its_end(tmp_path: Path) -> None:
    ended = run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    assert ended.exit_code == 3
    assert 0 < ended.seconds < 30
    assert ended.problem is not None
