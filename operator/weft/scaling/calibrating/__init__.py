"""How far a pool's replicas are from their prediction, and when decisions believe it.

`calibration`: two factors, learnt from replicas. `tails`: of latencies. `proving`: the load at
which replicas met their targets, whatever is predicted. `taking_over`: when decisions start using them.
"""
