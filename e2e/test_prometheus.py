"""The same load, seen by a real Prometheus server: what production uses as the metrics source."""

from __future__ import annotations

import contextlib
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.prometheus import PrometheusServer
from e2e.cluster.waiting import eventually
from e2e.conftest import OPERATOR_OPTIONS
from e2e.operator_process import OperatorProcess
from e2e.test_pool import grow_and_shrink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.node import RealNode
    from e2e.team import Team

QUERIES = re.compile(r'prometheus_http_requests_total\{code="(\d+)",handler="/api/v1/query(?:_range)?"\} (\S+)')


@contextlib.contextmanager
def in_place_of(operator: OperatorProcess, node: RealNode, *options: str) -> Iterator[OperatorProcess]:
    """Another operator with more options, for a while: there are never two."""
    operator.stop()
    try:
        with OperatorProcess.start(node.cluster, (*OPERATOR_OPTIONS, *options), "weft-prometheus") as other:
            yield other
    finally:
        operator.resume()


def queries_answered(prometheus: PrometheusServer) -> dict[str, float]:
    """How many queries Prometheus has answered, by status code, as it counts them itself: of now, and of the past."""
    counted: dict[str, float] = {}
    with urllib.request.urlopen(f"{prometheus.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own address
        text = answer.read().decode()
    for code, count in QUERIES.findall(text):
        counted[code] = counted.get(code, 0.0) + float(count)
    return counted


def engines_read(operator: OperatorProcess) -> tuple[float, float]:
    """Engines that the operator knows from Prometheus, and those that only answered itself."""
    told, asked = (operator.metric("weft_engines_read", origin=origin) for origin in ("prometheus", "engine"))
    return told, asked


def tells_of_both(operator: OperatorProcess) -> None:
    """An engine that has just started has no rate before the window that rates are of has samples of it."""
    eventually(lambda: engines_read(operator) == (2, 0), "Prometheus tells of both", timeout_seconds=90)


@pytest.mark.timeout(900)
def test_load_seen_by_prometheus_grows_and_shrinks_a_pool_just_the_same(
    node: RealNode, operator: OperatorProcess, team: Team
) -> None:
    """The same with a real Prometheus server as the source: it is what the operator knows both engines from."""
    with (
        PrometheusServer.start(node.cluster, team.namespace) as prometheus,
        in_place_of(operator, node, "--prometheus-url", prometheus.url) as asking,
    ):
        grow_and_shrink(team, lambda: tells_of_both(asking))
        eventually(lambda: engines_read(asking) == (1, 0), "and of the one that is left", timeout_seconds=90)
        eventually(lambda: queries_answered(prometheus), "the operator asks Prometheus")
        counted = queries_answered(prometheus)
    assert set(counted) == {"200"}
    assert counted["200"] >= 20
