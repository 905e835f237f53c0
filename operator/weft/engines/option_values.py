"""Values of the user's arguments that a release of the engine does not take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.catalog.option_values import option_values
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.engines.given import given

if TYPE_CHECKING:
    from weft.engines.launch import LaunchRequest


def refuse_values(request: LaunchRequest) -> None:
    """Raise `Invalid` (FeatureUnsupported) for the first value that the release does not take, with those it takes."""
    args, release = request.spec.engine.args, request.plan.engine
    for option, values in option_values(release.name, release.version).items():
        value = value_of(args, option)
        if value and value not in values:
            raise Invalid(
                Reason.FeatureUnsupported,
                f"engine.args {option} {value:.60} is not supported on {release.name.value} {release.version}: use "
                f"{', '.join(values[:-1])} or {values[-1]}",
            )


def value_of(args: tuple[str, ...], option: str) -> str:
    """The last value of an option; of `--settings.key` also where `--settings` is given as JSON. Nothing without."""
    parent, _, key = option.partition(".")
    found = given(args, option)
    if found or not key:
        return found
    try:
        settings = json.loads(given(args, parent) or "{}")
    except ValueError:
        return ""  # the engine says what is wrong with it
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, str) else ""
