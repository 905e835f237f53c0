"""End-to-end: real clusters to test and show Weft on."""
