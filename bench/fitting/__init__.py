"""Fitting the coefficients of the performance model to published measurements, and scoring it."""
