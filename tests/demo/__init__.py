"""The demo without its cluster: the scenario, the screen, the report and the verdict."""
