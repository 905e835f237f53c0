"""Model + SLO + fabric -> ranked shapes, with the reasons why the others lost.

The choice. `request`: its input. `choice`: the shape of one replica. `pair`: of both halves of a split together.
    `candidates`: every shape worth a look. `ranking`: which of those that are possible wins. `outlook`: all of them as
    curves, and what other targets would cost.
One candidate. `case`: all that speaks for and against it. `running`: that of a given shape. `together`: what several
    gain behind one front. `models`, `speculating`: the model, and what drafts for it.
What is impossible. `checks`: of a shape, in order. `memory`, `balancing`, `halves`, `wires`, `host_kv`: checks of one
    subject each. `refusals`: what is told where none is possible. `lengths`: declared ones that no shape could serve.
"""

from weft.shaping.choice import (
    capacity_of,
    choose,
    outline,
    planned_capacity,
    replanned_capacity,
    what_matters,
    wish_of,
)
from weft.shaping.halves import sizes_conflict
from weft.shaping.host_kv import refuse_a_host_cache_that_keeps_nothing
from weft.shaping.lengths import refuse_lengths
from weft.shaping.models import resolve_architecture
from weft.shaping.pair import Unpaired, choose_pair
from weft.shaping.request import ShapeRequest, Supply
from weft.shaping.running import running_replica
from weft.shaping.speculating import refuse_drafting_without_heads
from weft.shaping.together import FEW_HITS, share_a_front

__all__ = [
    "FEW_HITS",
    "ShapeRequest",
    "Supply",
    "Unpaired",
    "capacity_of",
    "choose",
    "choose_pair",
    "outline",
    "planned_capacity",
    "refuse_a_host_cache_that_keeps_nothing",
    "refuse_drafting_without_heads",
    "refuse_lengths",
    "replanned_capacity",
    "resolve_architecture",
    "running_replica",
    "share_a_front",
    "sizes_conflict",
    "what_matters",
    "wish_of",
]
