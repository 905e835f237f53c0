"""What stands before the replicas of a pool or a split.

`vllm_router`: the one of vLLM. `discovery`: how it and SGLang's find replicas. `counted`: what routers and pickers
    count.
"""
