"""Node labels and allocations -> Fabric: who shares NVLink with whom, and what is free there."""

from __future__ import annotations

from weft.fabric.build import build_fabric

__all__ = ["build_fabric"]
