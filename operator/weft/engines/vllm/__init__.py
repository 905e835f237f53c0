"""vLLM, the default.

`adapter`: puts all others together. `arguments`: flags by subject. `environment`: variables. `conflicts`:
    which of both Weft decides. `series`: metrics by release. `failure`: why it ended.
`context_parallelism`: DCP and PCP. `balancing`: data-parallel ranks. `ray`: replicas of several pods on Ray.
`connectors`: where KV goes. `handover`: between halves of which sizes. `lmcache`: LMCache inside its processes.
`lora`: adapters of the model.
"""
