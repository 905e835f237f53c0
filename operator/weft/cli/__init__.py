"""The command line: `weft plan | simulate | predict | explain | top | fabric | replay | crds | run`.

`main`: the commands. `replaying`: decisions that were recorded, decided again. Packages, each of which knows only those
before it: `ends`, `telling`, `typed`, `files`, `cluster`, `fabric`, `plan`, `drain`, `explain`, `simulate`.

Loading a command makes some hundred thousand objects without cycles, among which Python's garbage collector would
search for cycles a hundred times. Its thresholds are raised so far that it searches for the first time once the command
is at work, which takes a tenth off the time to the first answer.

They stay raised as long as the process lives. An operator lives long and has lower ones; its
passes delay the search on their own account.
"""

import gc

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + SIGINT, as shells count
_NEXT_GENERATION_AFTER = (20, 100)  # collections before one of the next generation
_NEW_OBJECTS_OF_COMMANDS = 200_000  # before a collection: twice as many as loading all that `weft plan` uses makes
_NEW_OBJECTS_OF_OPERATORS = 50_000


def keep_less_garbage() -> None:
    """Search for cycles more often, in a process that lives long."""
    gc.set_threshold(_NEW_OBJECTS_OF_OPERATORS, *_NEXT_GENERATION_AFTER)


gc.set_threshold(_NEW_OBJECTS_OF_COMMANDS, *_NEXT_GENERATION_AFTER)
