"""Who leaves, when, and what is tried again after a failure.

`rollout`: within which limits replicas leave and come. `terms`: where other limits count than those of the spec.
    `weighing`: what traffic needs more than those. `pairing`: which replicas of a new pair serve. `counted_on`: which
    ones a pair counts on. `pauses`: what it means for a split that some stay. `drains`: nodes that go away. `lasting`:
    who serves till they do. `predecessors`: whose end `Recreate` waits for. `trials`: whom nobody leaves for yet.
`backoff`: how long the next attempt waits. `avoidance`: which nodes come last for it.
"""
