"""InferencePools and PDSplits as the API server tells of them.

`watching`: by kopf, which tells each change. `watch_pacing`: how often it may ask. `endings`: how a watch ends.
    `listing`: all of them every few minutes. `absent_kinds`: those that the API server does not serve.
"""
