"""A cluster: nodes, pods, and what starts and ends them.

`cluster`: all of it. `state`: what its API server shows. `pods`: one pod. `kubelets`: what binds, starts and ends them.
    `quotas`: what may be made. `objects`: all that is no pod. `parts`: parts of GPUs.
`start_up`: how long a replica takes to start. `starts`: of each pool, in its shape. `node_faults`: what nodes suffer.
"""
