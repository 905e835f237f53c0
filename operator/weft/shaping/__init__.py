"""Model + SLO + fabric -> ranked shapes, with the reasons why the others lost."""

from weft.shaping.choice import capacity_of, choose, outline, what_matters, wish_of
from weft.shaping.lengths import refuse_lengths
from weft.shaping.models import resolve_architecture
from weft.shaping.pair import Unpaired, choose_pair
from weft.shaping.request import ShapeRequest, Supply
from weft.shaping.running import running_replica

__all__ = [
    "ShapeRequest",
    "Supply",
    "Unpaired",
    "capacity_of",
    "choose",
    "choose_pair",
    "outline",
    "refuse_lengths",
    "resolve_architecture",
    "running_replica",
    "what_matters",
    "wish_of",
]
