"""A definition that serves no status answers writes of it as if the resource were gone: it is not, and that is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.protocol.scripted_server import ScriptedServer
from weft.apply import Sender, TokenBucket, Writer
from weft.apply.sending import Unanswered
from weft.domain.snapshot import ResourceKey

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = ResourceKey("PDSplit", "team", "chat", "u1")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def write(server: ScriptedServer, *listed: str) -> object:
    """Write a status that is not found, while resources of that name with these UIDs are listed."""

    def answer(request: web.Request) -> web.Response:
        if request.method == "PATCH":
            message = 'pdsplits.weft.dev "chat" not found'
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": message}, status=404)
        assert request.query["fieldSelector"] == "metadata.name=chat"
        return web.json_response({"items": [{"metadata": {"name": "chat", "uid": uid}} for uid in listed]})

    server.answer = answer
    sender = Sender(ApiClient(Configuration(host=server.url)), TokenBucket())
    return Writer(sender, (), lambda *_: None).write_status(KEY, {}, "weft-decide", "41")


def test_what_is_still_there_is_not_forgotten(server: ScriptedServer) -> None:
    """Else nobody would serve it, nor say why, until it is edited or listed anew."""
    with pytest.raises(Unanswered, match="the definition of PDSplits serves no status: apply the CRDs"):
        write(server, "u1")


@pytest.mark.parametrize("listed", [(), ("u2",)], ids=["gone", "made again"])
def test_what_is_gone_is(server: ScriptedServer, listed: tuple[str, ...]) -> None:
    assert write(server, *listed) is None
