"""How a command ends when it cannot do what was asked.

`failure`: one sentence on stderr, and an exit code. `usage`: what is wrong with a command line that cannot be read.
"""
