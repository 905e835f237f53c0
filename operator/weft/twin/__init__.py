"""A simulated cluster: engines that behave like vLLM under load, traffic, and the loops of the operator itself."""
