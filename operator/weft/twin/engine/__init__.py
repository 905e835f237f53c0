"""One replica of an engine, from event to event.

`engine`: continuous batching with chunked prefill. `scheduler`: which requests the next step computes. `batch`: those
    that decode. `memory`: their KV. `request`: one of them. `counts`: what the engine counts.
`speed`: what a replica can do. `steps`: how long its steps take, as a table. `modelled`: as the performance model says.
"""
