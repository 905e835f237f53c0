"""Who leaves, when, and what is tried again after a failure.

`rollout`: within which limits replicas leave and come. `weighing`: what traffic needs more than those. `pairing`: which
    replicas of a new pair serve. `drains`: nodes that go away.
`backoff`: how long the next attempt waits. `avoidance`: which nodes come last for it.
"""
