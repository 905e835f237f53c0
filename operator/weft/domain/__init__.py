"""The vocabulary of Weft: frozen values, units, reasons and errors. Imports nothing else of ours."""
