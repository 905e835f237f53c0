"""The vocabulary of Weft: frozen values, units, reasons and errors. Imports nothing else of ours.

From what is known of one pass down to single words; what stands above knows what stands below it:

A pass. `snapshot`: all that a decision may look at. `decision`: what comes of it. `action`: what makes pods match.
    `crews`: pods by who owns them. `stumbling`: whom a mistake of ours is about. `coded`: all of these as JSON.
What Weft keeps. `status`: in statuses. `pool_memory`: in memory, from pass to pass. `forecast`: what traffic taught.
    `moves`: who moves for whom.
The cluster. `cluster`: nodes and pods. `overdue`: pods whose end nobody waits for. `fabric`: what is free on nodes.
    `room`: how much of that new replicas may take. `reports`: what drivers and topologies add. `quotas`, `queueing`:
    who else limits pods. `start_up`: how long they take.
What users ask for. `spec`: all of it. `workload`: traffic, and its SLO. `scaling_spec`: who owns the count, and within
    which bounds. `rollout_limits`: in whole replicas. `relaxations`: of security.
One replica. `model`: its architecture. `hardware`: its accelerators. `shape`: how it is built. `calibration`: how far
    it is from its prediction. `capacity`: what it serves, alone and beside others. `transport`: how KV reaches it.
Words. `reasons`: why. `errors`: what to do about it. `labels`: our names in the cluster.

Two packages know nothing of all this, but for how errors are told: `texts`: numbers, times and tables as they are
written. `values`: how a frozen value is made, copied, remembered and checked.
"""
