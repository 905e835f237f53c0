"""The two loops, kopf's registration, probes and metrics: a running operator."""

from __future__ import annotations
