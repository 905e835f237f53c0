"""Reads from the API server.

`reading`: GET requests. `small_reads`: answers that are good for a while. `lookups`: such reads of ConfigMaps and
    PriorityClasses. `pod_logs`: the last lines of an engine that failed. `clock`: the API server's time.
"""
