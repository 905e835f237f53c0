"""What a row of a benchmark table measured, and what the model says of the same. No pool is planned by it.

`measured`: a row as a replica under a load. `layouts`: what notes say of prefill and decode replicas. `recipes`: what
    only scripts of benchmarks say.
`expected`: the predictions for a row. `closed_loop`: users who wait for their answers. `open_loop`: requests that come
    at random. `offline`: all at once. `disaggregated`: prefill and decode apart. `alone`: only one of both. `seats`:
    how many requests run at once.
"""
