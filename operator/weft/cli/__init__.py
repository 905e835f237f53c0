"""The command line: `weft plan | explain | top | fabric | crds | run`.

Loading a command makes some hundred thousand values without cycles, among which Python would search for cyclic garbage
a hundred times: a search that is due less often takes a fifteenth off the time to the first answer.
It stays so as long as the process lives, an operator's too, whose passes put the search off on their own account.
"""

import gc

_SEARCH_AFTER = (50_000, 20, 100)  # values made since the last, and searches of each kind before one of the next

gc.set_threshold(*_SEARCH_AFTER)
