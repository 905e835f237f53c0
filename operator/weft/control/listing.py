"""Full lists of our resources, at the start and every few minutes: a watch does not say what vanished in a gap."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from weft.observe.api_server.reading import Reader
from weft.observe.custom_resources.cache import PLURALS, list_resources

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from weft.control.context import Context

RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


async def keep_listing(context: Context, client: ApiClient) -> None:
    """List for ever. An odd answer, maybe from a proxy, ends only one attempt."""
    reader, loop = Reader(client), asyncio.get_running_loop()
    places: list[str | None] = [*context.options.namespaces] or [None]
    while True:
        try:
            for kind in PLURALS:
                for place in places:
                    seen = await loop.run_in_executor(context.executor, list_resources, reader, kind, place)
                    context.resources.replace(seen)
        except Exception as error:  # noqa: BLE001 - whatever it was, listing goes on
            log.warning("our resources cannot be listed: %s", getattr(error, "reason", None) or error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            await asyncio.sleep(context.options.relist_seconds)
