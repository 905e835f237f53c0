"""CUDA graphs that a user's own arguments have vLLM capture (`_set_cudagraph_sizes` in its `config/vllm.py`)."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

from weft.engines.options.given import given

Arguments = tuple[str, ...]

_CONFIG = ("--compilation-config", "-cc")
_LARGEST, _SIZES, _MODE = "max_cudagraph_capture_size", "cudagraph_capture_sizes", "cudagraph_mode"


def captured_tokens(args: Arguments) -> float | None:
    """Tokens of the largest step with a graph: 0 if none is captured, None if the arguments leave it to vLLM.

    Unlike vLLM's own limit, the user's is not bounded by the sequences that run. What cannot be read counts as not
    said: vLLM does not start with it.
    """
    config = _config(args)
    if given(args, "--enforce-eager") == "true" or str(config.get(_MODE, "")).upper() == "NONE":
        return 0.0
    sizes = _whole(_listed(args, "--cudagraph-capture-sizes") or config.get(_SIZES))
    largest = _whole([given(args, "--max-cudagraph-capture-size") or config.get(_LARGEST)])
    return max(sizes or largest, default=None)


def _config(args: Arguments) -> dict[str, Any]:
    """What is said of compilation, as JSON or by keys (`-cc.cudagraph_mode=NONE`)."""
    found: dict[str, Any] = {}
    for name in _CONFIG:
        found |= _read(given(args, name))
        keyed = ((key, given(args, f"{name}.{key}".replace("_", "-"))) for key in (_LARGEST, _MODE))
        found |= {key: value for key, value in keyed if value}
    return found


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _listed(args: Arguments, option: str) -> list[str]:
    """The values that follow the last such option, up to the next one."""
    names = [argument.partition("=")[0].replace("_", "-") for argument in args]
    if option not in names:
        return []
    last = len(names) - 1 - names[::-1].index(option)
    joined = args[last].partition("=")[2]
    return [joined] if joined else list(takewhile(lambda each: not each.startswith("-"), args[last + 1 :]))


def _whole(values: object) -> list[float]:
    """The whole numbers above zero in a list."""
    texts = map(str, values) if isinstance(values, list) else ()
    return [float(text) for text in texts if text.isdecimal() and int(text) > 0]
