"""What metrics say before anything is decided with them.

`judged`: whether latencies meet their targets. `network`: whether KV transfers are what requests wait for.
`learning`: what latencies teach the performance model. `siblings`: who does worse than others of its pool.
"""
