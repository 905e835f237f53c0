"""Look up one option in the user's arguments, and hand on as it is what users write."""

from __future__ import annotations

from itertools import zip_longest


def given(args: tuple[str, ...], flag: str) -> str:
    """The last value of an option, `true` or `false` for a switch, empty if it is not given."""
    found = ""
    for argument, following in zip_longest(args, args[1:], fillvalue="-"):
        option, is_joined, value = argument.partition("=")
        name = option.replace("_", "-")
        if name == flag:
            found = value if is_joined else "true" if following.startswith("-") else following
        elif name == flag.replace("--", "--no-", 1):
            found = "false"
    return found


def literally(args: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments with texts of the user's as a container has to be given them.

    Kubernetes makes another variable's value of `$(NAME)`, and one dollar of `$$`. Weft reads arguments for the plan,
    which is to hold for what the engine gets; and a name of a model made of a key's variable would publish the key.
    """
    return tuple(argument.replace("$", "$$") for argument in args)
