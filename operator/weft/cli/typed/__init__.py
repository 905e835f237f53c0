"""What people type.

`commands`: the group of commands, and how each ends. `options`: those of several commands. `reference`: names of
    resources. `times`: seconds and durations. `completing`: completion in shells.
"""
