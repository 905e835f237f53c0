"""What clients send: sessions of one prompt or several that build on each other, without end, the same for a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from bench.routers_bench.engine import Tokens

_WORDS = 10**6
LONE_TOKENS, SUFFIX_TOKENS, SYSTEM_TOKENS = 320, 128, 192
PREFIXES, SKEW = 64, 0.8  # how often the n-th prefix comes falls with n to this power
TURNS, OPENING_TOKENS, SHORT_OPENING_TOKENS, TURN_TOKENS = 6, 160, 64, 80
_ROOMY, _SCARCE = 4000, 600  # blocks of a cache: all that comes, or not even all prefixes


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the client sends at one turn."""

    system: Tokens
    user: Tokens


Session = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sessions; of each an engine that knows all that came before computes so many tokens, with so large a cache.

    `turns` in each session; `joins`: the last engine joins while requests run.
    """

    name: str
    sessions: Callable[[Random], Iterator[Session]]
    new_tokens: int
    cache_blocks: int = _ROOMY
    turns: int = 1
    joins: bool = False


def nothing_in_common(random: Random) -> Iterator[Session]:
    """Prompts of which no two begin alike."""
    while True:
        yield (Prompt((), _drawn(random, LONE_TOKENS)),)


def one_prefix(random: Random) -> Iterator[Session]:
    """Prompts that have the same 60 % in common."""
    system = _drawn(random, SYSTEM_TOKENS)
    while True:
        yield (Prompt(system, _drawn(random, SUFFIX_TOKENS)),)


def many_prefixes(random: Random) -> Iterator[Session]:
    """Prompts with one of many prefixes, some of which come more often."""
    systems = [_drawn(random, SYSTEM_TOKENS) for _ in range(PREFIXES)]
    weights = [(1 + index) ** -SKEW for index in range(PREFIXES)]
    while True:
        (system,) = random.choices(systems, weights)
        yield (Prompt(system, _drawn(random, SUFFIX_TOKENS)),)


def conversations(random: Random) -> Iterator[Session]:
    """Turns that each begin with all turns before."""
    while True:
        yield _turns(random, (), OPENING_TOKENS)


def system_and_turns(random: Random) -> Iterator[Session]:
    """Conversations that all begin with the same system prompt."""
    system = _drawn(random, SYSTEM_TOKENS)
    while True:
        yield _turns(random, system, SHORT_OPENING_TOKENS)


def _turns(random: Random, system: Tokens, opening: int) -> Session:
    said = _drawn(random, opening + (TURNS - 1) * TURN_TOKENS)
    return tuple(Prompt(system, said[: opening + turn * TURN_TOKENS]) for turn in range(TURNS))


def _drawn(random: Random, count: int) -> Tokens:
    return tuple(random.randrange(_WORDS) for _ in range(count))


_LATER_TOKENS = (TURNS - 1) * TURN_TOKENS
TRAFFICS = {
    each.name: each
    for each in (
        Traffic("nothing in common", nothing_in_common, LONE_TOKENS),
        Traffic("one prefix", one_prefix, SUFFIX_TOKENS),
        Traffic("many prefixes", many_prefixes, SUFFIX_TOKENS, _SCARCE),
        Traffic("conversations", conversations, OPENING_TOKENS + _LATER_TOKENS, turns=TURNS),
        Traffic("system and turns", system_and_turns, SHORT_OPENING_TOKENS + _LATER_TOKENS, turns=TURNS),
        Traffic("a replica joins", one_prefix, SUFFIX_TOKENS, joins=True),
    )
}
