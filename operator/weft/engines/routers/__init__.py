"""What stands before the replicas of a pool or a split.

`vllm_router`: the one of vLLM. `sglang_router`: how SGLang's is asked to forget an engine. `discovery`: how both find
    replicas. `balance`: how far both go by prefix. `counted`: what routers and pickers count.
"""
