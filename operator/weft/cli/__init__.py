"""The command line: `weft plan | simulate | predict | explain | top | fabric | replay | crds | run`.

`main`: the commands. `replaying`: decisions that were recorded, decided again. Packages, each of which knows only those
before it: `ends`, `telling`, `typed`, `files`, `cluster`, `fabric`, `plan`, `drain`, `explain`, `simulate`.

Loading a command makes some hundred thousand objects without cycles, among which Python's garbage collector would
search for cycles a hundred times: raising its thresholds takes a fifteenth off the time to the first answer.

They stay raised as long as the process lives, an operator's too, whose passes delay the search on their own account.
"""

import gc

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + SIGINT, as shells count
_SEARCH_AFTER = (50_000, 20, 100)  # new objects before a collection, and collections before one of the next generation

gc.set_threshold(*_SEARCH_AFTER)
