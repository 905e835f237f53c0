"""The locks name everything by hash, and nothing of the machine that wrote them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
LOCKS = REPOSITORY / "requirements"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEVELOPMENT = [*EXTRAS["dev"], *EXTRAS["plot"]]
DECLARED = {
    "runtime": PROJECT["dependencies"],
    "dev": DEVELOPMENT,
    "predictors": [*DEVELOPMENT, *EXTRAS["predictors"]],
}


def locked(name: str) -> list[tuple[Requirement, str]]:
    """Each locked requirement with the text of its hashes."""
    logical_lines = (LOCKS / f"{name}.txt").read_text().replace("\\\n", " ").splitlines()
    halves = [line.partition("--hash=") for line in logical_lines if line.strip()]
    return [(Requirement(requirement.strip()), mark + hashes) for requirement, mark, hashes in halves]


def versions(name: str) -> dict[str, set[str]]:
    """Each locked release; one package may have one release per Python version."""
    found: dict[str, set[str]] = {}
    for requirement, _ in locked(name):
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    return found


@pytest.mark.parametrize("name", DECLARED)
def test_every_package_is_pinned_by_version_and_hash(name: str) -> None:
    loose = [str(requirement) for requirement, hashes in locked(name) if "--hash=sha256:" not in hashes]
    assert [] == loose
    assert all(re.fullmatch(r"==[^,*]+", release) for releases in versions(name).values() for release in releases)


@pytest.mark.parametrize("name", DECLARED)
def test_no_address_and_no_path_is_locked(name: str) -> None:
    assert re.search(r"://|--index|--find-links|(?:^|\s)/", (LOCKS / f"{name}.txt").read_text()) is None


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_is_locked_in_a_release_that_fits(name: str) -> None:
    releases = versions(name)
    for declared in map(Requirement, DECLARED[name]):
        pinned = releases.get(canonicalize_name(declared.name), set())
        assert pinned, f"{declared} is not locked; run `make lock`"
        assert all(declared.specifier.contains(release.removeprefix("==")) for release in pinned), str(declared)


@pytest.mark.parametrize(("name", "within"), [("runtime", "dev"), ("dev", "predictors")])
def test_what_is_added_moves_no_release_of_what_was_there(name: str, within: str) -> None:
    """Development runs on what production runs on, and so does what fits Dynamo's predictors."""
    larger = versions(within)
    assert versions(name) == {each: larger.get(each) for each in versions(name)}


def test_the_runtime_stays_small() -> None:
    assert {"pandas", "matplotlib", "scipy", "pmdarima", "prophet"}.isdisjoint(versions("runtime"))
