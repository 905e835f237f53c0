"""The two resources: models, definitions, and the way from a body to a record and from a decision to a status.

A spec as users write it. `pool`, `split`: whole. `model`, `engine`, `placing`, `scaling`, `serving`, `traffic`: its
    parts. `overrides`: the two pools inside a split's. `fields`, `patterns`, `naming`: what may stand in one field.
    `rules`: what the API server checks, too.
Read. `parsing`: a body into a record. `reading`: its values into plain numbers. `problems`: what is wrong, in a
    sentence. `meant`: what somebody may have meant.
A status. `status`: as the API shows it; `plan_status`: its plan. `status_fields`: types of fields. `status_writing`:
    out of decisions. `status_reading`: back into them. `live_figures`: when those are written. `figures`: numbers.
Definitions. `crd`: the two of them, with a structural `schema`.

Each name is loaded when it is asked for: a command that only reads a pool does not wait for the models of a status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from weft.api.crd import crds, write_crds
    from weft.api.figures import quantised
    from weft.api.naming import refused_name
    from weft.api.parsing import parse_pool, parse_split
    from weft.api.status_writing import converge_status, pool_status, split_converge_status, split_status

__all__ = [
    "converge_status",
    "crds",
    "parse_pool",
    "parse_split",
    "pool_status",
    "quantised",
    "refused_name",
    "split_converge_status",
    "split_status",
    "write_crds",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_home(name), name)


def _home(name: str) -> ModuleType:
    if name in {"crds", "write_crds"}:
        from weft.api import crd  # noqa: PLC0415 - see above; so are the others

        return crd
    if name in {"parse_pool", "parse_split"}:
        from weft.api import parsing  # noqa: PLC0415

        return parsing
    if name in {"quantised", "refused_name"}:
        from weft.api import figures, naming  # noqa: PLC0415

        return figures if name == "quantised" else naming
    from weft.api import status_writing  # noqa: PLC0415

    return status_writing
