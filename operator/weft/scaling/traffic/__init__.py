"""What comes and how well it is served, as measured.

`live`: measured in place of declared. `lengths_seen`: prompt and answer lengths. `attainment`: the share of requests
    within the SLO.
"""
