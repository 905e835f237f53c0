"""The loop for each resource, which makes the cluster match its status.

`converge_loop`: who is looked at when, by `work_queue`. `view`: what a pass reads. `one_pass`: what it does.
    `carrying_out`: its actions, and what a refusal holds back.
"""
