"""Engines that answer in real time, in the demo and in tests.

`fleet`: one for each pod that is ready, under traffic. `server`: their endpoints. `exposition`: their metrics as text.
"""
