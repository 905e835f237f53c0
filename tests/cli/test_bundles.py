"""Files of GitOps hold other kinds too, which are left alone; what is nearly one of ours is not left out in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.terminal import listed, node, pool, weft, written

if TYPE_CHECKING:
    from pathlib import Path

OTHERS: tuple[dict[str, Any], ...] = (
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
    {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"},
    {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "theirs"}},
)


def test_other_kinds_beside_a_pool_are_left_alone(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.yaml", listed(node("a")))
    ending = weft("plan", "-f", written(tmp_path / "all.yaml", *OTHERS, pool()), "--fabric", nodes)
    assert (0, 1) == (ending.code, ending.out.count("InferencePool/"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"kind": "InferencePools"},
            "InferencePools other: weft.dev/v1alpha1 has no such kind, perhaps InferencePool:",
        ),
        ({"kind": "inferencepool"}, "inferencepool other: weft.dev/v1alpha1 has no such kind, perhaps InferencePool:"),
        ({"kind": "pdsplit"}, "has no such kind, perhaps PDSplit: it has InferencePool and PDSplit"),
        (
            {"kind": "Deployment"},
            "Deployment other: weft.dev/v1alpha1 has no such kind: it has InferencePool and PDSpl",
        ),
        ({"kind": None}, "an object without a kind other: weft.dev/v1alpha1 has no such kind: it has"),
        (
            {"apiVersion": "weft.dev/v1"},
            "InferencePool other: there is no apiVersion 'weft.dev/v1': write weft.dev/v1al",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_is_nearly_ours_is_refused_beside_what_is(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    file = written(tmp_path / "all.yaml", pool("good"), {**pool("other"), **changes})
    ending = weft("plan", "-f", file)
    assert words in ending.sentence
    assert (2, "") == (ending.code, ending.out)
