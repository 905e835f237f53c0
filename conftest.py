"""What every tier shares: the control plane, the profiles of Hypothesis and the refusal to skip."""

from __future__ import annotations

import contextlib
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from e2e.cluster import build
from e2e.cluster.binaries import known_binaries
from e2e.cluster.certificates import OpensslMissingError
from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# A shell starts background jobs deaf to Ctrl-C, and children inherit it: tests that interrupt one would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two shared cores stall for seconds: a deadline is there to find an example that hangs, not one that was interrupted.
_PATIENT = settings(deadline=timedelta(seconds=5), suppress_health_check=(HealthCheck.too_slow,))
settings.register_profile("explore", _PATIENT)
settings.register_profile("ci", _PATIENT, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")

_CONTROL_PLANE = (*ControlPlaneOptions().binaries, "kubectl")
_BINARIES_BEHIND_FIXTURES = {
    "binaries": (*_CONTROL_PLANE, "kwok"),
    "control_plane": _CONTROL_PLANE,
    "node": tuple(known_binaries()),
    "private_control_plane": _CONTROL_PLANE,
    "tools": ("helm", "kubectl"),
}


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Give one control plane to the whole session; a test that uses it works in namespaces of its own."""
    try:
        started = ControlPlane.start()
    except (build.BinariesMissingError, OpensslMissingError) as missing:
        pytest.skip(f"no control plane: {missing}")
    with started as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs binaries by what it asks for, so that `-m "not apiserver"` is complete.

    A control plane's start ends by itself. It takes a minute on a busy machine, which is no time of the test that
    happens to be the first.
    """
    for item in items:
        if _fixtures_with_binaries(item):
            item.add_marker("e2e" if "node" in _fixtures_with_binaries(item) else "apiserver")
            limit = item.get_closest_marker("timeout")
            without_fixtures = pytest.mark.timeout(*(limit.args if limit else ()), func_only=True)
            item.add_marker(without_fixtures, append=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build missing binaries before the first test: minutes of Go are no part of any test's timeout."""
    fixtures = set().union(*map(_fixtures_with_binaries, session.items))
    if session.config.option.collectonly or not fixtures:
        return
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for fixture in sorted(fixtures):
            with contextlib.suppress(build.BinariesMissingError):  # the fixture skips with the reason
                build.ensure(_BINARIES_BEHIND_FIXTURES[fixture])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Build before workers start, whose progress nobody would see."""
    for fixture in ("binaries", "tools"):
        with contextlib.suppress(build.BinariesMissingError):  # as above
            build.ensure(_BINARIES_BEHIND_FIXTURES[fixture])


def _fixtures_with_binaries(item: pytest.Item) -> set[str]:
    return _BINARIES_BEHIND_FIXTURES.keys() & set(getattr(item, "fixturenames", ()))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--no-skips`: what CI asks for, where nothing may be left out."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails, with the reason of the skip")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse the skip of a test, be it by a marker, a fixture or the test itself."""
    report = yield
    if item.config.option.no_skips:
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse the skip of a whole module."""
    report = yield
    if collector.config.option.no_skips:
        _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"--no-skips: {reason}"
