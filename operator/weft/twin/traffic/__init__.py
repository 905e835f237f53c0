"""Requests: when each comes, and how long its prompt and its answer are.

`trace`: the requests themselves. `made_up`: synthetic ones, described by a line. `open_loop`: a rate over time.
`files`: recorded ones, from `tables` or `json_lines`. `columns`: which column is what. `clock`: in which unit times
    are. `rows`: what all readers hand over. `busiest`: what a user would declare of them for their peak.
"""
