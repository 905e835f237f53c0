"""What a pass tells: statuses with their reasons, events, and when to look again.

`outcomes`: the status of a pool. `placement`: where its replicas are, and what they lack. `capacity`: what would have
    to be added for them. `conditions`: what else is said of it. `holding`: pools without a plan. `placed_lately`: how
    many replicas had a place at once. `forecasts`: what a new process goes on with. `news`: what deserves an event.
`halves`: the status of a split, out of its pools. `pair_figures`: its live figures. `transport`: what its network does.
"""
