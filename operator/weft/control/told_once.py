"""What the log was told, so that it is not told the same at each try: a refusal that lasts is tried again for ever."""

from __future__ import annotations

from weft.apply.lately import Lately


class ToldOnce:
    """The last news about each subject. Threads may share it: at worst something is told twice."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._last: Lately[str] = Lately(lambda _: True)

    def is_news(self, subject: str, news: str) -> bool:
        """Whether something else, or nothing, was told last about the subject; it counts as told from now on."""
        if self._last.get(subject) == news:
            return False
        self._last.put(subject, news)
        return True

    def end(self, subject: str) -> None:
        """It is over: the same would be news again."""
        self._last.drop(subject)
