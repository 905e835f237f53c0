"""How a watch of kopf ends, and which errors say all about it by themselves."""

from __future__ import annotations

_ANSWERS = "kopf._cogs.clients"  # the modules of errors that kopf makes of the API server's answers: private, see tests


class SessionClosedError(Exception):
    """The session was closed while a watch was held back. It ends that watch, and so this run of kopf.

    By the error that aiohttp raises kopf would log in anew, and wait for ever where it closed the session as it ends.
    """

    def __init__(self) -> None:
        """It always says the same."""
        super().__init__("the session was closed while a watch was held back")


def says_all(error: BaseException | None) -> bool:
    """Whether an error is what the API server answered kopf, or our own end of a watch: where it came up is no news."""
    return isinstance(error, SessionClosedError) or type(error).__module__.startswith(_ANSWERS)
