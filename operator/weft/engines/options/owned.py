"""Arguments and variables that Weft decides, for an engine whose command line is parsed by argparse or click."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from weft.domain.shape import Shape

BY_SHAPE = "use spec.shape"
BY_WEFT = "Weft sets it"
# Which devices of its pod an engine sees: a smaller number than that of the plan, or others
SEEN_DEVICES = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
)
_ONE_LETTER = len("-n")
_SHORTEST_ABBREVIATION = len("--xxx")


@dataclass(frozen=True, slots=True)
class OwnedFlags:
    """`owned` maps each long flag to what to use instead, `short` maps short flags to long ones."""

    owned: Mapping[str, str]
    short: Mapping[str, str]

    def conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        """Why the first argument that sets what Weft decides is refused, however it is spelled; None without one."""
        for argument in args:
            owned = flag_behind(argument, self.owned, self.short)
            if owned is not None:
                instead = self.owned[owned]
                shaped = f"; this replica is {shape}" if instead.startswith(BY_SHAPE) else ""
                message = f"spec.engine.args may not contain {argument}: {instead}{shaped}"
                return Explanation(Reason.ArgumentConflict, message)
        return None


def flag_behind(argument: str, flags: Collection[str], short: Mapping[str, str]) -> str | None:
    """The one of `flags` behind an argument: `--flag=value`, `--some_flag`, `--no-flag`, `--json.key`, `--fla`.

    `-n2` is `-n 2`. None for values, and for other options.
    """
    if not argument.startswith("-") or argument in {"-", "--"}:
        return None
    name = argument.split("=", 1)[0].split(".", 1)[0]
    if not name.startswith("--"):
        return short.get(name, short.get(name[:_ONE_LETTER]))
    flag = name.replace("_", "-")
    spellings = (flag, flag.replace("--no-", "--", 1))
    exact = next((each for each in spellings if each in flags), None)
    if exact is not None:
        return exact
    # argparse accepts an unambiguous prefix of a flag
    long = [each for each in spellings if len(each) >= _SHORTEST_ABBREVIATION]
    return next((each for prefix in long for each in flags if each.startswith(prefix)), None)


def without_every_address(args: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments without `--host ::`, which pods need that have IPv6 alone: no other address is reachable."""
    told = [index for index, pair in enumerate(pairwise(args)) if pair == ("--host", "::")]
    left_out = {*told, *(index + 1 for index in told)}
    return tuple(each for index, each in enumerate(args) if index not in left_out and each != "--host=::")


def env_conflict(names: tuple[str, ...], owned: Collection[str]) -> Explanation | None:
    """Why the first variable that Weft sets itself is refused; None if there is none."""
    taken = [name for name in names if name in owned]
    return Explanation(Reason.ArgumentConflict, f"spec.engine.env may not set {taken[0]}: {BY_WEFT}") if taken else None
