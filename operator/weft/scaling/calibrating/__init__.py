"""How far a pool's replicas are from their prediction, and when decisions believe it.

`calibration`: two factors, learnt from replicas. `tails`: of latencies. `taking_over`: when decisions start using them.
"""
