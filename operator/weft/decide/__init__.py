"""The one entry to the core: a snapshot in, the next status of every resource out.

A pass is `compose` from top to bottom, and its steps are `steps`. In the order in which a pass comes to them:

Learn. `siblings`: who does worse than others of its pool. `learning`: what latencies teach the performance model.
Plan. `planning`: the shape of every pool, and what one replica serves. `facts`: what a shape is chosen from.
    `wished_shapes`: plans in another shape than the best. `pairs`: of both halves of a split together. `alternatives`:
    what else they could run. `left_shapes`: which shape they left last. `kept_shapes`: how long they keep the one they
    have since. `support`: what this version refuses. `vanished`: whose GPUs are out of sight. `order`: who belongs
    together, and who comes first. `pass_state`: all that was looked up before anybody has a turn.
Judge what is there. `standing`: replicas as their pods tell. `survivors`: who of them stays. `health`: why others are
    lost. `ending`: why an engine ended. `silence`: whose node does not answer. `succession`: who waits for GPUs that
    its own pool leaves. `promises`: what is free beside all that was promised.
Count. `counts`: how many replicas each pool shall have. `need`: how many its traffic needs now. `accounts`: what is
    left of quotas. `budgets`: whom they pay for. `rounds`: the fair share. `worth`: what replicas of an earlier shape
    count for. `frozen`: where `maxGPUs` pays for no other. `turns`: all of that as the turn of one pool.
Set out. `course`: a turn under way. `availability`: places, quotas and the time. `start`: what all begin with.
    `setting_out`: who leaves, and how many are to come. `rollout`: within which limits. `weighing`: what traffic needs
    more than those. `pairing`: which replicas of a new pair serve. `drains`: nodes that go away. `backoff`: how long
    the next attempt waits. `avoidance`: which nodes come last for it. `handover`: who is placed by another scheduler.
    `holes`: which shapes the holes allow. `outgrown`: who wants more than its shape has places for. `at_maximum`: who
    may have no more of it. `elsewhere`: which other shapes serve more.
Find places. `growth`: where the next replica goes. `slots`: whether it has one. `nvlink_domains`: which of them hold a
    whole split. `racks`: halves that share one. `spares`: nodes that are kept. `making_room`: what a few moves would
    open. `moving`: moves that are under way. `outliers`: who leaves for a better one.
Take what is scarce. `preemption`: a place, from lower pools. `quota_preemption`: room in a quota. `taking`: what these
    have in common. `yielding`: whom lower pools could give up.
Tell. `telling`: the status of a pool, and when to look again. `telling_places`: where its replicas are, and what they
    lack. `conditions`: what deciding says of a resource, with `network` for NetworkBound. `judged`: whether latencies
    meet their targets. `places`: how many had one lately. `forecasts`: what a new process goes on with. `holding`:
    pools without a plan. `halves`: a split, out of its pools, with `pair_figures` and `transport`. `news`: what
    deserves an event.
Go on. `settling`: when a moment is decided once more. `persisting`: in which order statuses are written. `suspects`:
    whom a mistake of ours is about.
"""

from __future__ import annotations

from weft.decide.compose import decide
from weft.decide.persisting import Persisted, in_safe_order
from weft.decide.settling import as_decided
from weft.decide.suspects import whose

__all__ = ["Persisted", "as_decided", "decide", "in_safe_order", "whose"]
