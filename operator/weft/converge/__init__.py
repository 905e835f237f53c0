"""Desired and observed replicas -> ordered actions. Pure: what is wanted is in status, what is there was observed.

A pass. `pool`: over one InferencePool. `split`: over one PDSplit. `observed_pool`: what the first looks at. `answer`:
    what both give back. `objects`: what they apply beside pods.
Replicas. `replicas`: pods that live and die together. `starting`: created behind a gate, and released together.
    `departures`: who leaves now. `leaving`: how long one may finish requests. `draining`: out of the front first, then
    deleted. `relabelling`: labels that somebody edited. `domains`: their ComputeDomains.
Fronts. `engine_fronts`: of one pool, one for each engine. `generations`: of a split, one for each pair.
    `split_routing`: which of those are there. `counterparts`: who has nobody to exchange KV with. `fronts_as_left`:
    those that the spec does not tell. `serving`: why a front does not answer. `children`: the two pools of a split.
Told. `conditions`: of a pool. `split_conditions`: of a split. `census`: its replicas, counted. `phases`: how far starts
    have come.
"""

from __future__ import annotations

from weft.converge.answer import Convergence
from weft.converge.leaving import Heard
from weft.converge.pool import converge_pool
from weft.converge.split import converge_split

__all__ = ["Convergence", "Heard", "converge_pool", "converge_split"]
