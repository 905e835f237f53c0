"""Which columns of a table, or members of JSON lines, are the time, the prompt and the answer of a request.

They go by the names that public traces, gateways and load generators give them. Where several could be meant the first
of these lists is taken, and told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.domain.texts.figures import counted, some_of
from weft.twin.traffic.clock import MILLISECONDS, SECONDS, Clock, FromZero, parted
from weft.twin.traffic.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FROM_ZERO = "arrival_s"  # the only time that counts from the trace's own beginning, not from its first request
# Names in lower case, without blanks, dashes, underscores and units of time.
_TIMES = (
    *("arrival", "timestamp", "arrivedat", "arrivaltimestamp", "arrivaltime", "arrivedtime", "requesttimestamp"),
    *("requesttime", "starttime", "startedat", "createdat", "created", "time", "datetime", "ts"),
)
_INPUTS = (
    *("inputtokens", "contexttokens", "requesttokens", "numprefilltokens", "promptsize", "inputlength"),
    *("prompttokens", "isl", "inputlen", "promptlength", "promptlen", "inputsequencelength", "input", "nprompttokens"),
)
_OUTPUTS = (
    *("outputtokens", "generatedtokens", "responsetokens", "numdecodetokens", "tokensize", "outputlength"),
    *("completiontokens", "osl", "outputlen", "completionlength", "outputsequencelength", "output", "ngeneratedtokens"),
)
_ROLES = (_TIMES, _INPUTS, _OUTPUTS)
_MODELS = frozenset({"model", "modelname", "modelid"})
_LACKING = ("a time (timestamp)", "the tokens of a prompt (input_tokens)", "the tokens of an answer (output_tokens)")
# Headers of public traces, with what their times are: nothing is guessed there, and nothing told.
_KNOWN: dict[tuple[str, ...], tuple[str, ...]] = {
    (FROM_ZERO, "input_tokens", "output_tokens"): (SECONDS,),
    ("timestamp", "contexttokens", "generatedtokens"): ("dates",),
    ("timestamp", "request tokens", "response tokens"): (SECONDS, "seconds since 1970"),
    ("arrived_at", "num_prefill_tokens", "num_decode_tokens"): (SECONDS, "seconds since 1970"),
    ("arrival_timestamp", "prompt_size", "token_size"): (SECONDS, "seconds since 1970"),
}
_MOST_MODELS = 100  # most names of models that are kept
_NAMED_MODELS = 3  # most of them that a sentence lists


@dataclass(slots=True)
class Columns:
    """The three columns of a request by name and place, its clock, and what else the reader learns on the way.

    `model` is the place of a column that names each request's model, `models` counts the names that were read, and
    `passed_over` the columns that could have been meant, too, each with the one that was taken. `known`: the format is
    one whose meaning is certain.
    """

    names: tuple[str, str, str]
    places: tuple[int, int, int]
    clock: Clock | FromZero
    model: int | None = None
    passed_over: tuple[tuple[str, str], ...] = ()
    known: bool = False
    models: Counter[str] = field(default_factory=Counter)

    @property
    def from_first(self) -> bool:
        """Whether the first request is at second 0, whatever its time says."""
        return self.names[0].lower() != FROM_ZERO

    def seen(self, model: object) -> None:
        """Count a request of a model."""
        name = "" if model is None else str(model).strip().strip('"')
        if name and (name in self.models or len(self.models) < _MOST_MODELS):
            self.models[name] += 1

    def told(self) -> tuple[str, ...]:
        """Say in sentences what was guessed, after the rows were read; nothing for a known format of one model."""
        kinds = _KNOWN.get(tuple(map(str.lower, self.names)), ())
        found = [f"{taken} is taken, and not {other}" for taken, other in self.passed_over]
        if not self.known and self.clock.kind not in kinds:
            time, prompt, answer = self.names
            found.append(f"requests are read from {time} ({self.clock.kind}), {prompt} and {answer}")
        if len(self.models) > 1:
            found.append(f"requests of {_of(self.models)} are replayed together: for one alone, keep its rows")
        return tuple(found)


def is_header(names: Sequence[str]) -> bool:
    """Whether any of the names is that of a column of requests."""
    return any(_candidates(names, each) for each in _ROLES)


def columns_of(names: Sequence[str], usual: str = SECONDS) -> Columns:
    """Find the columns among the names of a header; `usual` is the unit of small numbers.

    Raises `TraceError` where one is missing, or twice there.
    """
    found = [_candidates(names, each) for each in _ROLES]
    lacking = [words for words, each in zip(_LACKING, found, strict=True) if not each]
    if lacking:
        raise TraceError(f" lacks {' and '.join(lacking)}: it has {', '.join(names)[:200]}")
    taken = [names[each[0]] for each in found]
    twice = next((name for name in taken if list(map(str.lower, names)).count(name.lower()) > 1), None)
    if twice is not None:
        raise TraceError(f" has the column {twice} twice: remove one")
    time, prompt, answer = taken
    clock = FromZero() if time.lower() == FROM_ZERO else Clock(parted(time.lower())[1], usual)
    return Columns(
        names=(time, prompt, answer),
        places=(found[0][0], found[1][0], found[2][0]),
        clock=clock,
        model=next((place for place, name in enumerate(names) if _bare(name) in _MODELS), None),
        passed_over=tuple((names[each[0]], names[other]) for each in found for other in each[1:]),
    )


def usual_of(names: Iterable[str]) -> str:
    """Return the unit of small times in JSON lines: Mooncake counts milliseconds, Bailian and others seconds."""
    found = set(names)
    mooncake = {"timestamp", "input_length", "output_length"} <= found
    return MILLISECONDS if mooncake and not found & {"chat_id", "parent_chat_id"} else SECONDS


def _candidates(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the places of the names that may be meant, the likeliest first."""
    bare = [_bare(name) for name in names]
    return sorted((place for place, name in enumerate(bare) if name in wanted), key=lambda at: wanted.index(bare[at]))


def _bare(name: str) -> str:
    """Return a name in lower case, without a unit and without what parts its words."""
    base = parted(name.strip().lower())[0].removesuffix("(tokens)").strip()
    return base.replace("_", "").replace("-", "").replace(" ", "").rpartition(".")[2]


def _of(models: Counter[str]) -> str:
    """Name the models with the most requests."""
    order = sorted(models.items(), key=lambda each: (-each[1], each[0]))
    listed = some_of([f"{name}: {requests:,}" for name, requests in order], _NAMED_MODELS)
    return f"{counted(len(order), 'model')} ({listed})"
