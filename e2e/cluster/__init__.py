"""A real control plane from pinned sources, with simulated and real nodes, on one machine."""
