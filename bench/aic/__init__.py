"""aiconfigurator, a planner that people use today, asked about the rows that Weft is scored on."""
