"""Who starts `weft run` by hand reads no warning that asks nothing of anybody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kopf._core.reactor import observation, running

from weft.control import logs

if TYPE_CHECKING:
    import pytest


def test_kopf_warns_of_errors_but_not_of_what_weft_handles_or_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of signals it warns at every start, as it runs in a thread, and of absent kinds each time it is started anew."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # the handlers of the test run stay
    for name in (*logs.QUIET, *logs.TOLD_ANYWAY):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    logs.set_up_logs(as_json=False)
    for logger in (running.logger, observation.logger):
        assert not logger.isEnabledFor(logging.WARNING)
        assert logger.isEnabledFor(logging.ERROR)
    assert logging.getLogger("kopf").isEnabledFor(logging.WARNING)


def test_a_mistake_keeps_its_traceback() -> None:
    """Only answers of the API server say all without it."""
    told = (ValueError, ValueError("no answer"), None)
    record = logging.LogRecord("kopf", logging.ERROR, "", 0, "failed", (), told)
    assert logs.WithoutOldNews().filter(record)
    assert told == record.exc_info
