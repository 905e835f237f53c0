"""What `/metrics` shows.

`telemetry`: all of it. `pass_gauges`: how gauges are read from the last pass, which are `fabric_gauges`, `pool_gauges`,
    `split_gauges` and `traffic_gauges`.
"""
