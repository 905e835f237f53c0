"""A simulated fabric: engines that behave like vLLM under load, and traffic to drive them."""
