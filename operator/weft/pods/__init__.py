"""Programs that run in pods and nowhere else: they are read as text, and know nothing of Weft."""
