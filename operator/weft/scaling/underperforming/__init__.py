"""Replicas that do worse than their siblings.

`outliers`: which, and when one may be replaced. `slowness`: slower than their siblings. `cut_off`: unable to exchange
    KV with the other half.
"""
