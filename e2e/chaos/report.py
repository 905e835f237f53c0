"""What came of it: phases, requests, tokens, failures, latencies and KV, as JSON and as a short table."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from e2e.chaos.eyes import Counts, Engine
    from e2e.chaos.traffic import Result
    from e2e.team import Json


@dataclass(slots=True)
class Phase:
    """One change, from the order to its end; monotonic seconds. `killed` are addresses of engines that were killed.

    What decode pods had counted in all before the order, at the end and a little later: `received` are prompt tokens
    that they had fetched, `computed` those that they had computed themselves, `failed_transfers` what did not arrive.
    """

    name: str
    started: float
    ended: float = 0.0
    received: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    failed_transfers: list[float] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    def note(self, said: Counts) -> None:
        """Add what decode pods have counted by now."""
        self.received.append(said.received)
        self.computed.append(said.computed)
        self.failed_transfers.append(said.failed_transfers)

    @property
    def planned(self) -> bool:
        """Whether no request may fail for it."""
        return not self.killed


@dataclass(frozen=True, slots=True)
class Report:
    """All that was seen of one run; times are monotonic seconds, and in JSON seconds from `origin`."""

    origin: float
    phases: Sequence[Phase]
    results: Sequence[Result]
    engines: Sequence[Engine]

    def during(self, phase: Phase) -> list[Result]:
        """Requests of which a part happened in a phase."""
        return [result for result in self.results if result.during(phase.started, phase.ended)]

    @property
    def failed(self) -> list[Result]:
        """Requests that came back without all their tokens."""
        return [result for result in self.results if not result.whole]

    def json(self) -> Json:
        """Everything, with sums first."""
        return {
            "requests": len(self.results),
            "failed": len(self.failed),
            "tokensAsked": sum(result.asked for result in self.results),
            "tokensCounted": sum(result.counted for result in self.results),
            "seconds": round(max((phase.ended for phase in self.phases), default=self.origin) - self.origin, 1),
            **latencies(self.results),
            "phases": [self._phase(phase) for phase in self.phases],
            "engines": [self._engine(engine) for engine in self.engines],
            "results": [self._result(result) for result in self.results],
        }

    def write(self, path: Path) -> None:
        """Write the JSON, into a folder that it makes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.json(), indent=1) + "\n")

    def table(self) -> str:
        """A line a phase; prompt tokens are those that decode pods fetched and computed themselves."""
        heads = ("phase", "from", "to", "requests", "failed", "fetched", "computed", "KV lost", "TTFT p50", "max")
        return "\n".join(_line(row) for row in (heads, *map(self._row, self.phases)))

    def _row(self, phase: Phase) -> tuple[str, ...]:
        told = self._phase(phase)
        counted = (phase.received, phase.computed, phase.failed_transfers)
        grown = (each[-1] - each[0] for each in counted)
        figures = (told["started"], told["ended"], told["requests"], told["failed"], *grown)
        return (phase.name, *(f"{each:.0f}" for each in figures), _or_dash(told["ttftP50"]), _or_dash(told["ttftMax"]))

    def _phase(self, phase: Phase) -> Json:
        found = self.during(phase)
        return {
            "name": phase.name,
            "started": self._at(phase.started),
            "ended": self._at(phase.ended),
            "requests": len(found),
            "failed": sum(not result.whole for result in found),
            "receivedPromptTokens": phase.received,
            "computedPromptTokens": phase.computed,
            "failedTransfers": phase.failed_transfers,
            "killed": phase.killed,
            **latencies(found),
        }

    def _engine(self, engine: Engine) -> Json:
        times = ("deleted", "gone", "read")
        plain = dataclasses.asdict(engine)
        return {**plain, **{name: self._at(plain[name]) for name in times}}

    def _result(self, result: Result) -> Json:
        times = ("started", "ended", "first_token")
        plain = dataclasses.asdict(result)
        return {**plain, **{name: self._at(plain[name]) for name in times}}

    def _at(self, moment: float | None) -> float | None:
        return None if moment is None else round(moment - self.origin, 2)


def latencies(results: Iterable[Result]) -> Json:
    """Seconds to the first token and between tokens, of requests that came back whole; None where there is none."""
    whole = [result for result in results if result.whole and result.first_token is not None]
    first = [(result.first_token or 0.0) - result.started for result in whole]
    between = [(result.ended - (result.first_token or 0.0)) / max(1, result.counted - 1) for result in whole]
    return {
        "ttftP50": _rounded(statistics.median(first)) if first else None,
        "ttftMax": _rounded(max(first)) if first else None,
        "tpotP50": _rounded(statistics.median(between)) if between else None,
        "tpotMax": _rounded(max(between)) if between else None,
    }


def _line(row: Sequence[str]) -> str:
    name, *figures = row
    return f"{name:38}" + "".join(f"{each:>10}" for each in figures)


def _rounded(seconds: float) -> float:
    return round(seconds, 3)


def _or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
