"""The load that a pool will have once a replica ordered now is ready, and how far that may be off.

`forecast`: a distribution of the rate once a start is over. `learning`: what each bin of traffic teaches it. `seasons`:
    the daily pattern. `cycles`: what comes back every few minutes, and `returning`: bursts that do at no fixed
    distance, both by the `course` of the last hours. `scatter`: how far forecasts were off. `risk`: how large a margin
    to buy. `starts`: how long a start takes.
`past`: what weeks of recorded rates teach. `keeping`: when it is written into a status, and `packing` as which text.
`units`: the same in another unit of work.
"""
