"""Weft's pods beside plain ones with pod affinity on the real kube-scheduler."""
