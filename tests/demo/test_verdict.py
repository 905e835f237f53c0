"""`python -m e2e.demo` ends with 0 when every pool became Ready, and names the pools when not."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, cast

import pytest

from e2e.cluster.build import BinariesMissingError
from e2e.demo.__main__ import main
from e2e.demo.run import Demo, require_engine_port
from e2e.demo.screen import Screen
from e2e.demo.world import WorldReader
from tests.demo.looks import NAMES, look

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from e2e.cluster.control_plane import ControlPlane
    from e2e.demo.timeline import Timeline
    from e2e.demo.world import World
    from e2e.operator_process import OperatorProcess


class Looks(WorldReader):
    """Shows one world after the other, and the last one from then on."""

    def __init__(self, *worlds: World) -> None:
        self._worlds = list(worlds)

    def look(self) -> World:
        """Return the next one."""
        return self._worlds.pop(0) if len(self._worlds) > 1 else self._worlds[0]


def demo(screen: Screen) -> Demo:
    """One that has waited for longer than it waits, and has no cluster: only its waiting and looking is run."""
    long_ago = time.monotonic() - 3600.0
    return Demo(cast("ControlPlane", None), cast("OperatorProcess", None), screen, begun=long_ago, applied=long_ago)


class Run:
    """A run of the demo that finds those pools Ready while it waits, and `later` while there is traffic."""

    def __init__(self, ready: Iterable[str], later: Iterable[str] | None = None) -> None:
        self.ready, self.later = ready, later

    def __call__(self, screen: Screen, report: Path, _figures: Path) -> Timeline:
        waiting = demo(screen)
        asyncio.run(self._see(waiting))
        waiting.timeline.write(report)
        return waiting.timeline

    async def _see(self, waiting: Demo) -> None:
        await waiting._wait_until_ready(Looks(look(self.ready)))
        if self.later is not None:
            await waiting._take_in(0.0, look(self.later))


def ended(run: Run, folder: Path) -> tuple[int, bool]:
    """Exit code, and whether the report is there."""
    report = folder / "report.html"
    code = main(["--report", str(report), "--figures", str(folder / "demo.json")], run)
    return code, report.is_file()


def test_all_ready_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, True) == ended(Run(NAMES), tmp_path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("ready", "named"),
    [((), "chat, assistant, reasoner"), (("chat", "assistant"), "reasoner"), (("reasoner",), "chat, assistant")],
    ids=["none", "all but one", "one"],
)
def test_the_pools_that_are_not_ready_are_named_after_the_report_is_written(
    ready: tuple[str, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (1, True) == ended(Run(ready), tmp_path)
    said = capsys.readouterr()
    assert said.err == f"demo: never became Ready: {named}; the report has the reasons\n"
    assert "report: file://" in said.out


def test_a_pool_that_becomes_ready_under_traffic_counts(tmp_path: Path) -> None:
    """Late is not never."""
    assert (0, True) == ended(Run(["chat"], later=NAMES), tmp_path)


def test_a_pool_that_was_ready_before_a_fault_counts(tmp_path: Path) -> None:
    """The demo breaks one on purpose."""
    assert (0, True) == ended(Run(NAMES, later=["chat"]), tmp_path)


def test_waiting_ends_as_soon_as_all_are_ready(capsys: pytest.CaptureFixture[str]) -> None:
    patient = demo(Screen())
    patient.applied = time.monotonic()
    last = asyncio.run(patient._wait_until_ready(Looks(look([]), look(["chat"]), look())))
    assert "first pool Ready" in capsys.readouterr().out
    assert {"True"} == {last.condition(name, "Ready")["status"] for name in NAMES}


def test_nothing_to_run_it_with_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def bare(screen: Screen, report: Path, figures: Path) -> Timeline:
        raise BinariesMissingError("missing: etcd")

    assert main([], bare) == 2
    assert capsys.readouterr().err == "demo: missing: etcd\n"


@pytest.mark.parametrize(("address", "code"), [("0.0.0.0", 2), ("127.0.0.1", 0)])
def test_a_port_that_is_taken_everywhere_is_2_and_named(
    address: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Engines listen on addresses of their own, so that one who listens on his own alone is not in their way."""
    with socket.create_server((address, 0)) as other:
        port: int = other.getsockname()[1]

        def checked(screen: Screen, report: Path, figures: Path) -> Timeline:
            require_engine_port(port)
            return Run(NAMES)(screen, report, figures)

        assert code == main(["--report", str(tmp_path / "r.html"), "--figures", str(tmp_path / "f.json")], checked)
    assert (f"port {port} of all addresses" in capsys.readouterr().err) == (code == 2)


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(screen: Screen, report: Path, figures: Path) -> Timeline:
        raise KeyboardInterrupt

    assert main([], stopped) == 130
    assert "everything is stopped" in capsys.readouterr().out
