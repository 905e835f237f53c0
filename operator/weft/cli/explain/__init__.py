"""`weft explain` and `weft top`.

`command`: reads a resource and what it waits for. `page`: its status in words. `considered`: domains that were
    considered for a replica without a place. `top_page`: all pools and splits in one live table.
"""
