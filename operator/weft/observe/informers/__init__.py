"""The cluster as records, kept current by one informer per kind.

`cluster`: all of it. `reflector`: one kind. `reports`: kinds that a cluster may lack. `gateway`, `queues` and `quotas`:
    those of Gateways, of Kueue and of ResourceQuotas.
"""
