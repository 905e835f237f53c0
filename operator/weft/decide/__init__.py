"""The one entry to the core: a snapshot in, the next status of every resource out.

The rules, in packages whose heads say which module has which. Each package knows only those that come before it here:

`plans`: what every pool shall run. `replicas`: who is there and stays, and what is free. `measured`: what metrics say.
`counting`: how many replicas each pool shall have, and who pays. `rollouts`: who leaves, and when. `places`: where
replicas go, and who makes room. `shapes`: when a pool changes its shape. `telling`: statuses, reasons and events.

What applies them to everybody:

Pass. `compose`: a pass from top to bottom. `meeting`: which halves of splits never meet. `judging`: which replicas
    stay. `budgeting`: what quotas pay for. `turns`: how each pool begins. `steps`: what all do, one step after the
    other. `setting_out`: the first of them, with who leaves and how many are to come. `replanning`: pools in other
    shapes.
Know. `order`: who belongs together, and who comes first. `pass_state`: all that was looked up before anybody has a
    turn. `availability`: places, quotas and the time. `course`: a turn under way.
Go on. `settling`: when a moment is decided once more. `persisting`: in which order statuses are written. `suspects`:
    whom a mistake of ours is about.
"""

from __future__ import annotations

from weft.decide.compose import decide
from weft.decide.persisting import Persisted, in_safe_order
from weft.decide.settling import as_decided
from weft.decide.suspects import whose

__all__ = ["Persisted", "as_decided", "decide", "in_safe_order", "whose"]
