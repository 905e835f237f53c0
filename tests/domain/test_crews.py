"""Pods by whose they are."""

from __future__ import annotations

from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.crews import crews_of


def pod(name: str, namespace: str = "team", pool: str | None = None) -> PodRecord:
    identity = PodIdentity(pool, 0, 0, "r") if pool is not None else None
    return PodRecord(namespace, name, f"uid-{name}", PodPhase.Running, "n-0", (), identity)


def names(pods: tuple[PodRecord, ...]) -> dict[str, list[str]]:
    return {crew: [each.name for each in together] for crew, together in crews_of(pods).items()}


def test_pods_of_a_pool_go_together_and_those_of_others_by_namespace() -> None:
    pods = (pod("b", pool="u1"), pod("x"), pod("a", pool="u1"), pod("y", "batch"), pod("c", pool="u2"), pod("z"))
    assert names(pods) == {"u1": ["b", "a"], "/team": ["x", "z"], "/batch": ["y"], "u2": ["c"]}


def test_a_namespace_named_like_a_uid_is_no_pool() -> None:
    assert names((pod("a", "u1"), pod("b", pool="u1"))) == {"/u1": ["a"], "u1": ["b"]}


def test_other_pods_are_sorted_out_anew() -> None:
    assert names((pod("a", pool="u1"),)) == {"u1": ["a"]}
    assert names((pod("a", pool="u2"),)) == {"u2": ["a"]}
