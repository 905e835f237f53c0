"""The placement benchmark in parts: what arrives, who places it, the clock, and the page."""
