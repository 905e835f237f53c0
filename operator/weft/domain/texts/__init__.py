"""Numbers, times and tables as people and Kubernetes write them.

`figures`: numbers for messages. `units`: durations and quantities. `times`: RFC 3339. `separators`: what stands between
    the columns of a table.
"""
