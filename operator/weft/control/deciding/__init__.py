"""The global loop, which decides on everything at once.

`decide_loop`: one pass after the other. `isolating`: what to decide on where deciding on one resource fails.
    `decision_writing`: decisions into statuses. `showing`: into metrics and, by `recording`, into files. `garbage`:
    keeps Python's collector out of a pass.
"""
