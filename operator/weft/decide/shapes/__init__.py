"""When a pool changes its shape for what the fabric has room for.

`holes`: which shapes the free places allow. `at_maximum`: who may have no more of its shape, and needs it. `outgrown`:
    who wants more than its shape has places for. `elsewhere`: which other shapes serve more. `comparing`: two shapes by
    what so many replicas of each serve.
`start`: what every pool starts from, and how it is planned in another shape.
"""
