"""Load and latency of pods and pools, out of their samples.

`observation`: what a pod and a pool did. `pool_totals`: the figures of a pool, out of those of its pods. `arriving`:
    requests that came lately.
Not believed are `odd_pages`, outdated or foreign; `odd_counts`, which cannot be; and `contradictions` between figures.
    `caveats`: what is reported about them.
"""
