"""`weft simulate`: requests replayed against a simulated cluster.

Ask. `command`: reads, simulates and shows. `wishes`: its options as they were typed. `setting`: what the twin is given
    for them: `resources`, `requests` and `plans` by resource. `live_trace`: requests drawn from what a Prometheus
    counted. `simulated_clock`: what a freeze comes to on its clock. `oracle`: what full knowledge would pay.
Show. `report`: what was simulated, and its figures. `series`: figures over time. `page`: as text or data. `html`: as
    one file, with `pictures` made of `charts`. `fleet` and `fleet_html`: the same of several resources.
"""
