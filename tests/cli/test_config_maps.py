"""`weft plan --context` reads a model's config.json from the cluster, as the operator would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.cli.terminal import pool
from tests.protocol.scripted_server import ScriptedServer
from weft.api import parse_pool
from weft.cli.cluster.config_maps import ConfigMaps
from weft.cli.cluster.reading import ClusterReader
from weft.cli.cluster.world import World
from weft.cli.ends.failure import CommandFailure
from weft.observe.api_server.reading import Reader

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

MODEL = {"id": "acme/secret", "config": {"configMapRef": {"name": "secret"}}}
NAMED = {**pool(), "metadata": {"name": "chat", "namespace": "team", "uid": "u"}, "spec": {"model": MODEL}}


def read_from_cluster(status: int, answer: dict[str, Any]) -> PoolRecord:
    with ScriptedServer() as server:
        server.answer = lambda _: web.Response(status=status, text=json.dumps(answer))
        cluster = ClusterReader(Reader(ApiClient(Configuration(host=server.url))), "default", server.url)
        found = ConfigMaps.of([], World((), cluster=cluster)).into_pool(parse_pool(NAMED))
        assert server.count("GET", "/api/v1/namespaces/team/configmaps/secret") == 1
        return found


@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        (200, {"data": {"config.json": "{}"}}, "{}"),
        (200, {"data": {"other": "{}"}}, None),
        (200, {}, None),
        (404, {"message": "not found"}, None),
    ],
)
def test_the_cluster_answers_for_what_is_not_in_the_file(status: int, answer: dict[str, Any], text: str | None) -> None:
    found = read_from_cluster(status, answer)
    assert found.spec is not None
    assert found.spec.model.config_json == text


def test_a_config_map_that_may_not_be_read_is_named() -> None:
    with pytest.raises(CommandFailure, match="you may not read ConfigMap secret in namespace team"):
        read_from_cluster(403, {})
