"""Where a KV cache goes beside the GPU that made it.

`host_memory`: to memory of the node. `disks`: to its disks.
`handover`: between the halves of a split, where their engines and shapes agree. `wires`: a transport that both halves
    have to name; two of them are `nvlink` and `libfabric` (EFA). `pages`: the page size of SGLang's.
"""
