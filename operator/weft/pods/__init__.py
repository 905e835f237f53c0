"""Programs that run in pods and nowhere else: they are read as text, and know nothing of Weft.

`download_weights`: before an engine. `mpi_world`: the pods of a TensorRT-LLM replica as one world. `pair_front`: its
front before the pairs of a split.
"""
