"""Where replicas go, and who makes room where there is none.

`growth`: where the next replica goes. `racks`: halves of a split that share an NVLink domain. `spares`: nodes that are
    kept. `handover`: who is placed by another scheduler.
`making_room`: what a few moves would open. `moving`: moves that are under way. `outliers`: who leaves for a better one.
`recreating`: places of replicas that end before their successors come.
`preemption`: a place that lower pools give up. `quota_preemption`: their room in a quota. `taking`: what these have in
    common. `yielding`: whom lower pools could give up.
"""
