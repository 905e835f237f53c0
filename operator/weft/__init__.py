"""Weft weaves LLM inference into a GPU fabric: a Kubernetes operator."""

__version__ = "0.1.0"
