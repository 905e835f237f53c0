"""The operator of a simulated cluster.

`operation`: what the real one decides and converges, in turn. `standstill`: when that can be left out. `engines`: the
    engines of the replicas that it starts. `external`: another rule that writes the counts, and those it begins with.
"""
