"""Arguments and variables that a user gives an engine, and those that Weft decides.

`given`: one of them looked up. `spellings`: however it is spelled. `owned`: those that are Weft's, with the field to
    use instead. `unknown`: those that a release does not know. `rules`: values that it does not take.
`settings`: those of TensorRT-LLM's file.
`batches`: limits on one step of the engine. `graphs`: the largest step with a captured graph. `memory`: what the KV
    cache may take. `prefixes`: a prefix cache that is off. `loading`: how weights are read. `vllm_only`: what of a
    pool no other engine has.
"""
