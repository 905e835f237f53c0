"""`weft plan --drain`: what draining nodes would do.

`command`: reads what runs and shows what follows. `draining`: which replicas move, and when. `following`: decisions
    followed forward without a cluster. `page`: how it is shown.
"""
