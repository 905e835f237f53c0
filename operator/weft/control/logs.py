"""Log formats: JSON for collectors, plain text for people."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from weft.control.watches.endings import says_all

QUIET = ("kubernetes.informer", "urllib3", "aiohttp.access", "kopf", "prometheus_api_client")
# What kopf warns of and Weft handles or tells itself: at each start that it gets no signals, and absent kinds.
TOLD_ANYWAY = ("kopf._core.reactor.running", "kopf._core.reactor.observation")


class WithoutOldNews(logging.Filter):
    """Lets every record pass, and those of errors that say all without their traceback, which has forty lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if record.exc_info is not None and says_all(record.exc_info[1]):
            record.exc_info = None
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(*, as_json: bool) -> None:
    """Log to standard error; of libraries only warnings, of the informer nothing, as Weft reports its watches."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else plain)
    handler.addFilter(WithoutOldNews())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("kubernetes.informer").setLevel(logging.CRITICAL)
    for name in TOLD_ANYWAY:
        logging.getLogger(name).setLevel(logging.ERROR)
