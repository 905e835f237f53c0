"""Options that users may spell in several ways, as argparse and vLLM take them, under one name with their values."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

from weft.engines.options.given import is_a_value
from weft.engines.options.owned import flag_behind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


def values_given(args: tuple[str, ...], flags: Collection[str], short: Mapping[str, str]) -> dict[str, str]:
    """The last value of each of `flags` that is given, `true` or `false` for a switch.

    JSON is taken apart: `--config={"a":{"b":1}}`, `--config.a.b 1` and `-c.a.b=1` are all `--config.a.b` with `1`.
    """
    found: dict[str, str] = {}
    for argument, following in zip_longest(args, args[1:], fillvalue="-"):
        flag = flag_behind(argument, flags, short)
        if flag is None:
            continue
        written, is_joined, value = argument.partition("=")
        if not is_joined:
            switched = "false" if written.startswith("--no-") else "true"
            value = following if is_a_value(following) else switched
        found.update(_apart(flag + written[len(written.split(".", 1)[0]) :], value))
    return found


def _apart(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Each setting in a JSON object, or the text itself."""
    try:
        value = json.loads(text) if text.startswith("{") else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield name, text
        return
    for key, inner in value.items():
        yield from _apart(f"{name}.{key}", inner if isinstance(inner, str) else json.dumps(inner))
