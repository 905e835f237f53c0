"""TensorRT-LLM settings in `engine.args`: `--set KEY=VALUE`, which Weft writes into the configuration file.

So they also work on releases whose server has no such option. Fields and values are those of `LlmArgs` in
`tensorrt_llm/llmapi/llm_args.py` around 1.2 and after 1.3; what they require is in `catalog/option_rules.yaml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

SET = "--set"
_BALANCER = "moe_config.load_balancer"
_NUMBERS = (f"{_BALANCER}.num_slots", f"{_BALANCER}.layer_updates_per_iter")
KEYS = ("guided_decoding_backend", *_NUMBERS)

Settings = dict[str, Any]


def settings_of(args: tuple[str, ...]) -> dict[str, str]:
    """Values of `--set` by key, as written; the last one counts."""
    found = (setting.partition("=") for setting, _ in _split(args) if setting is not None)
    return {key: value for key, _, value in found}


def without_settings(args: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments other than `--set`, which go to the command line."""
    return tuple(argument for setting, argument in _split(args) if setting is None)


def settings_conflict(args: tuple[str, ...]) -> Explanation | None:
    """Why the first setting that users may not set, or that has to be a number and is not, is refused; None without."""
    for key, value in settings_of(args).items():
        if key not in KEYS:
            message = (
                f"spec.engine.args may not contain {SET} {key}: it sets fields of the file that Weft writes; "
                f"allowed: {', '.join(KEYS)}"
            )
            return Explanation(Reason.ArgumentConflict, message)
        if not value or (key in _NUMBERS and not value.isdecimal()):
            wanted = "a whole number" if key in _NUMBERS else "a value"
            return Explanation(
                Reason.ArgumentConflict, (f"spec.engine.args {SET} {key} needs {wanted}, not {value!r:.60}")
            )
    return None


def written(args: tuple[str, ...]) -> Settings:
    """The settings as nested fields of the configuration file."""
    settings: Settings = {}
    for key, value in settings_of(args).items():
        *parents, name = key.split(".")
        at = settings
        for parent in parents:
            at = at.setdefault(parent, {})
        at[name] = int(value) if key in _NUMBERS else value
    return settings


def _split(args: tuple[str, ...]) -> Iterator[tuple[str | None, str]]:
    """(Setting, argument) for each argument; the setting is None but for `--set`, which takes the next one along."""
    rest = iter(args)
    for argument in rest:
        if argument == SET:
            yield next(rest, ""), argument
        elif argument.startswith(f"{SET}="):
            yield argument.removeprefix(f"{SET}="), argument
        else:
            yield None, argument
