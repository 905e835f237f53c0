"""A class of the operator has its name for itself: a reader of two packages never meets one word for two things."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import weft

PACKAGE = Path(str(weft.__file__)).parent
# Of public classes with the same name as another, and why that is no confusion.
ALLOWED = {
    "Expected": "of `pods.download_weights`, whose text runs alone in a pod and imports nothing of ours",
    "Half": "of `pods.pair_front`, likewise",
}


def homes_of_public_classes() -> dict[str, list[str]]:
    """Modules, as paths inside the package, by name of the public class that each defines."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    return found


def test_no_two_public_classes_have_the_same_name() -> None:
    """A second one gets a name that says what it is; one that is the same thing is imported."""
    several = {name: homes for name, homes in homes_of_public_classes().items() if len(homes) > 1}
    assert {} == {name: homes for name, homes in several.items() if name not in ALLOWED}


def test_every_allowed_name_is_still_that_of_two_classes_one_of_which_runs_alone() -> None:
    homes = homes_of_public_classes()
    for name in ALLOWED:
        assert 2 == len(homes[name])
        assert any(home.startswith("pods/") for home in homes[name])
