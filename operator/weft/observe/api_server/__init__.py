"""Reads from the API server.

`reading`: GET requests. `lookups`: what is read only on demand. `pod_logs`: the last lines of an engine that failed.
    `clock`: the API server's time.
"""
