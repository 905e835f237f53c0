"""Runs in engines as `sitecustomize`, so that several of them share two cores.

Python collects garbage rarely, as imports make hardly any: an engine imports 5,000 modules in each of its processes,
and nine full collections meanwhile look at a million objects that all stay, an eighth of the processor time of its
start. Reference counts free what is no circle as before.

And no engine ties itself to a core. On CPUs vLLM's NIXL connector binds the process that has it to the last core of
each NUMA node (0.32.0, `kv_connector/v1/nixl/base_worker.py`), whatever `VLLM_CPU_OMP_THREADS_BIND` says: all engines
of a pair to the same one, where one that ended got a hundredth of it beside one that served.
"""

import gc
import os
from collections.abc import Iterable

gc.set_threshold(100_000, 20, 100)


def _stay_unbound(_process: int, _cores: Iterable[int], /) -> None:
    """In place of `os.sched_setaffinity`."""


os.sched_setaffinity = _stay_unbound
