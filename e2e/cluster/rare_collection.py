"""Runs in engines as `sitecustomize`: Python collects garbage rarely, as imports make hardly any.

An engine imports 5,000 modules in each of its processes, and nine full collections meanwhile look at a million objects
that all stay: an eighth of the processor time of its start. Reference counts free what is no circle as before.
"""

import gc

gc.set_threshold(100_000, 20, 100)
