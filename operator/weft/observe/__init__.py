"""Observing: caches of the cluster and of our resources, metrics sources, and the snapshot built from them.

Names are imported from their modules: `weft plan` reads nodes from a file, and does not wait for clients it never uses.
"""
