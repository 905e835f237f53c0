"""Full lists of our resources, at the start and every few minutes: a watch does not say what vanished in a gap."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException

from weft.observe.api_server.reading import NOT_FOUND, Reader
from weft.observe.custom_resources.cache import PLURALS, list_resources

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from weft.control.context import Context
    from weft.control.watches.absent_kinds import AbsentKinds

RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


async def keep_listing(context: Context, client: ApiClient, absent: AbsentKinds) -> None:
    """List for ever. An odd answer, maybe from a proxy, ends only one attempt; the same one again is not told again."""
    reader, told = Reader(client), ""
    while True:
        try:
            for kind in PLURALS:
                await _list_all(context, reader, kind, absent)
        except Exception as error:  # noqa: BLE001 - whatever it was, listing goes on
            why = str(getattr(error, "reason", None) or error)
            if why != told and not absent:
                log.warning("our resources cannot be listed: %s", why)
            told = why
            await asyncio.sleep(RETRY_SECONDS)
        else:
            told = ""
            await asyncio.sleep(context.options.relist_seconds)


async def _list_all(context: Context, reader: Reader, kind: str, absent: AbsentKinds) -> None:
    """List one kind in every place that is served. Raises as `Reader` does."""
    loop, places = asyncio.get_running_loop(), context.options.namespaces or (None,)
    for place in places:
        try:
            seen = await loop.run_in_executor(context.executor, list_resources, reader, kind, place)
        except ApiException as error:
            if error.status == NOT_FOUND:
                absent.note_absent(PLURALS[kind])
            raise
        absent.note_served(PLURALS[kind])
        context.resources.replace(seen)
