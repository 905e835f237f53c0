"""SGLang, for pools that name it.

`adapter`: puts all others together. `arguments`: flags by subject. `environment`: variables. `conflicts`:
    which of both Weft decides. `series`: metrics by release. `failure`: why it ended.
`handover`: between which groups of GPUs it transfers KV. `context_parallelism`: which shapes share contexts.
"""
