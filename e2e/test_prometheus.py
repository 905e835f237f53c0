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
def in_place_of(operator: OperatorProcess, node: RealNode, *options: str) -> Iterator[None]:
    """Another operator with more options, for a while: there are never two."""
    operator.stop()
    with OperatorProcess.start(node.cluster, (*OPERATOR_OPTIONS, *options), "weft-prometheus"):
        yield
    operator.resume()


def queries_answered(prometheus: PrometheusServer) -> dict[str, float]:
    """How many queries Prometheus has answered, by status code, as it counts them itself."""
    with urllib.request.urlopen(f"{prometheus.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own address
        text = answer.read().decode()
    return {code: float(count) for code, count in QUERIES.findall(text)}


@pytest.mark.timeout(900)
def test_load_seen_by_prometheus_grows_and_shrinks_a_pool_just_the_same(
    node: RealNode, operator: OperatorProcess, team: Team
) -> None:
    """E2 with a real Prometheus server as the source."""
    with (
        PrometheusServer.start(node.cluster, team.namespace) as prometheus,
        in_place_of(operator, node, "--prometheus-url", prometheus.url),
    ):
        grow_and_shrink(team)
        eventually(lambda: queries_answered(prometheus), "the operator asks Prometheus", timeout_seconds=10)
        counted = queries_answered(prometheus)
    assert set(counted) == {"200"}
    assert counted["200"] >= 20
