"""Who starts `weft run` by hand reads no warning that asks nothing of anybody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kopf._core.reactor import running

from weft.control import logs

if TYPE_CHECKING:
    import pytest


def test_kopf_warns_of_errors_but_not_of_signals_that_weft_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its warning comes at every start, as it runs in a thread."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # the handlers of the test run stay
    for name in (*logs.QUIET, logs.STARTS_OF_KOPF):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    logs.set_up_logs(as_json=False)
    assert not running.logger.isEnabledFor(logging.WARNING)
    assert running.logger.isEnabledFor(logging.ERROR)
    assert logging.getLogger("kopf").isEnabledFor(logging.WARNING)
