"""What is said of a command line that cannot be read: a wrong value, an unknown option, a word too many."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

# Phrases of typer and pydantic about a value, with plainer ones.
_IN_PLAIN_WORDS = (
    ("Value error, ", ""),
    ("Input should be", "must be"),
    ("a valid integer, unable to parse string as an integer", "a whole number"),
    ("a valid number, unable to parse string as a number", "a number"),
)
_ALIKE = 0.7  # below this a suggestion is another word
_TOO_MANY = "Got unexpected extra argument(s) ("


def usage_sentence(error: Any) -> str:  # noqa: ANN401 - typer keeps the classes to itself
    """Say what is wrong with the command line that a usage error of typer is about, and where its help is."""
    context = getattr(error, "ctx", None)
    message = _unknown_option(error) or _too_many(error) or error.format_message()
    for theirs, ours in _IN_PLAIN_WORDS:
        message = message.replace(theirs, ours)
    command = getattr(context, "command_path", "weft")
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; see `{command} --help`"


def perhaps(word: str, known: list[str]) -> str:
    """Return `, perhaps plan` for `plann`, and nothing where no known word is like it."""
    bare = {each.lstrip("-"): each for each in known}
    near = get_close_matches(word.lstrip("-"), bare, 1, _ALIKE)
    return f", perhaps {bare[near[0]]}" if near else ""


def _unknown_option(error: Any) -> str | None:  # noqa: ANN401 - typer keeps the classes to itself
    name = getattr(error, "option_name", None)
    if name is None or not hasattr(error, "possibilities"):
        return None
    known = _options_of(getattr(error, "ctx", None))
    begins = [each for each in known if each.startswith(name)]
    return f"{error.message}{f', perhaps {begins[0]}' if len(begins) == 1 else perhaps(name, known)}"


def _too_many(error: Any) -> str | None:  # noqa: ANN401 - typer keeps the classes to itself
    """Say that files are given with an option: `weft plan pool.yaml`, or `-f *.yaml` that the shell has spread out."""
    message: str = error.message
    if not message.startswith(_TOO_MANY):
        return None
    words = message.removeprefix(_TOO_MANY).removesuffix(")")
    if "--file" in _options_of(error.ctx):
        return f"nothing says what {words!r:.80} is: a file needs --file (-f) before it, each its own"
    return f"nothing says what {words!r:.80} is: remove it"


def _options_of(context: Any) -> list[str]:  # noqa: ANN401 - typer keeps the classes to itself
    params = context.command.get_params(context) if context is not None else ()
    return [name for each in params for name in each.opts if name.startswith("--")]
