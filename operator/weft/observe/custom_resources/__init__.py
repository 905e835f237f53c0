"""InferencePools and PDSplits.

`cache`: their bodies as last seen. `bodies`: these as records. `claims`: what only claims to belong to one.
    `regained`: replicas that a status has lost, and `regaining` the same of all pools, where one with an error leaves
    the others readable.
"""
