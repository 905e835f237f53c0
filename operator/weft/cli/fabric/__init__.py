"""`weft fabric`: racks, boards and nodes, and who holds them.

`command`: reads and shows. `page`: as a tree of text. `data`: as JSON. `html`: as one file, with `tables` around the
    racks.
"""
