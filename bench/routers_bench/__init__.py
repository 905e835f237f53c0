"""Real routers before played engines on loopback.

`engine`: a played engine and its prefix cache. `serving`: its address. `traffic`: what clients send. `starting`: a
    router as Weft starts it. `running`: one router under one traffic. `table`: figures of several seeds.
"""
