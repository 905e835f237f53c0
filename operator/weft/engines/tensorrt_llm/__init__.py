"""TensorRT-LLM, for pools that name it.

`adapter`: puts all others together. `config`: its file. `arguments`: flags for what is not in there.
    `conflicts`: what Weft decides. `series`: metrics by release. `failure`: why it ended.
`refusals`: what it or the way it is started does not support. `shapes`: which shapes it does. `world`: replicas of
    several pods. `front`: its server before the halves of a split.
"""
