"""The two resources: models, definitions, and the way from a body to a record and from a decision to a status."""

from __future__ import annotations

from weft.api.crd import crds, refused_name, write_crds
from weft.api.figures import quantised
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
