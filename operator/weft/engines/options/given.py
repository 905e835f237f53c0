"""Look up one option in the user's arguments, and hand on as it is what users write."""

from __future__ import annotations

import re
from itertools import zip_longest

# vLLM's notation (`human_readable_int`): 8k is 8,000 tokens, 8K is 8,192, and only before the former may be a point.
# Of hundreds of digits Python makes infinity, which is no count.
_NUMBER = re.compile(r"(\d{1,15})([KMGT]?)|(\d{1,15}\.\d+|\d{1,15})([kmgt])", re.ASCII)
_BELOW_ZERO = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)  # argparse takes these for values, where others are options
_TIMES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_TIMES |= {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def given(args: tuple[str, ...], flag: str) -> str:
    """The last value of an option, `true` or `false` for a switch, empty if it is not given."""
    found = ""
    for argument, following in zip_longest(args, args[1:], fillvalue="-"):
        option, is_joined, value = argument.partition("=")
        name = option.replace("_", "-")
        if name == flag:
            found = value if is_joined else following if is_a_value(following) else "true"
        elif name == flag.replace("--", "--no-", 1):
            found = "false"
    return found


def said(args: tuple[str, ...], option: str, telling: int) -> str:
    """As `given`, also of an option that is abbreviated, as argparse accepts, to more than `telling` letters."""
    dashed = option.replace("_", "-")
    return given(spelled_out(args, dashed, telling), dashed)


def spelled_out(args: tuple[str, ...], option: str, telling: int) -> tuple[str, ...]:
    """The arguments with the whole name of an option that has dashes, wherever it is abbreviated as in `said`."""
    return tuple(_spelled_out(argument, option, telling) for argument in args)


def without(args: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """The arguments without some options and their values."""
    kept, value_may_follow = [], False
    for argument in args:
        option, joined, _ = argument.partition("=")
        if option.replace("_", "-") in options:
            value_may_follow = not joined
            continue
        if not (value_may_follow and is_a_value(argument)):
            kept.append(argument)
        value_may_follow = False
    return tuple(kept)


def number_above_zero(text: str) -> int | None:
    """A number as vLLM reads it; None for zero, and for what is none (an engine's own `-1`)."""
    match = _NUMBER.fullmatch(text)
    found = int(float(match[1] or match[3]) * _TIMES[match[2] or match[4] or ""]) if match else 0
    return found or None


def is_a_value(argument: str) -> bool:
    """Whether argparse takes an argument for the value of the option before it."""
    return not argument.startswith("-") or _BELOW_ZERO.fullmatch(argument) is not None


def _spelled_out(argument: str, option: str, telling: int) -> str:
    name, joined, value = argument.partition("=")
    begins = len(name) > telling and option.startswith(name.replace("_", "-"))
    return f"{option}{joined}{value}" if begins else argument


def literally(args: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments with texts of the user's as a container has to be given them.

    Kubernetes makes another variable's value of `$(NAME)`, and one dollar of `$$`. Weft reads arguments for the plan,
    which is to hold for what the engine gets; and a name of a model made of a key's variable would publish the key.
    """
    return tuple(argument.replace("$", "$$") for argument in args)
