"""Images that are more than one engine, or another server.

`nim`: NVIDIA's, with a proxy before the engine. `nim_profiles`: those for one model. `foreign`: those that Weft does
    not drive. `running`: which engine and release a pod runs. `tags`: which
    engine and release the name of a published image tells.
"""
