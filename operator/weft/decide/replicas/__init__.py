"""Which replicas there are, who of them stays, and what their promises leave free on the fabric.

`roll`: all replicas, looked up. `machines`: their nodes, and which of these are away. `standing`: replicas as their
    pods tell. `survivors`: who of them stays. `health`: why others are lost. `ending`: why an engine ended. `hanging`:
    which of several that hang goes first. `silence`: whose node does not answer. `vanished`: whose GPUs are out of
    sight. `succession`: who waits for GPUs that its own pool leaves.
`promises`: what is free beside all that was promised. `slots`: whether a replica has a slot in that.
"""
