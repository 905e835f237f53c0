"""Node labels and allocations -> Fabric: who shares NVLink with whom, and what is free there.

`build`: the fabric, out of its `layout`, which pods do not change, and what they `use`.
A node. `members`: by itself. `devices`: its accelerators. `parts`: whether they are whole. `faults`: what keeps
    replicas off it, and what moves them away. `network`: where it is, and its RDMA devices.
A domain. `membership`: which one a node belongs to. `racks`: labels of racks beside cliques. `reach`: more GPUs than
    NVLink can join. `reported`: what drivers say.
Notes. `contradictions`: sources that disagree. `unused`: accelerators that nobody here can use. `apart`: replicas in
    several domains at once.
"""

from __future__ import annotations

from weft.fabric.build import build_fabric

__all__ = ["build_fabric"]
