"""What full knowledge of a trace would pay.

`need`: the replicas that it keeps busy. `oracle`: the fewest GPU-hours. `search`: the cheapest counts in simulations.
"""
