"""A simulated cluster: engines that behave like vLLM under load, traffic, and the loops of the operator itself.

`simulation`: a whole run. `outcome`: what came of it. `shortages`: when pools had fewer replicas than they wanted.
Packages, each of which knows only those before it: `traffic`, `engine`, `serving`, `hindsight`, `policies`, `live`,
`cluster`, `operating`.
"""
