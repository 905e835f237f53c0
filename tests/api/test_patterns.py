"""Whoever writes a text that does not match its pattern reads in words what it takes, and no regular expression."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.api.cases import resource
from tests.api.full import FULL_POOLS, leaves, replaced
from weft.api import parse_pool
from weft.api.patterns import DNS_LABEL, DNS_SUBDOMAIN, EXTENDED_RESOURCE, HOST_NAME, LABEL_KEY


def told(spec: dict[str, object]) -> str:
    record = parse_pool(resource("InferencePool", "chat", spec))
    return "" if record.problem is None else record.problem.message


@pytest.mark.parametrize("text", ["a b", "!", "-"])
def test_no_field_answers_with_a_regular_expression(text: str) -> None:
    """Every field of a spec in turn, also as the only item of a list."""
    texts = (text, [text])
    sentences = [told(replaced(full, path, value)) for full in FULL_POOLS for path in leaves(full) for value in texts]
    assert [] == [each for each in sentences if "^" in each or "pattern" in each]
    assert len([each for each in sentences if each]) > 20


def test_a_tag_that_names_no_release_is_told_what_a_release_is() -> None:
    spec: dict[str, object] = {"model": {"id": "example/model"}, "engine": {"name": "VLLM", "version": "latest"}}
    assert told(spec) == (
        "spec.engine.version: must be a release such as 0.32.0 (a tag such as latest does not say which one), "
        "not 'latest'"
    )


def is_label(text: str) -> bool:
    """IsDNS1123Label of Kubernetes, without its length."""
    inside = text.replace("-", "a")
    return bool(re.fullmatch("[a-z0-9]+", inside)) and not text.startswith("-") and not text.endswith("-")


def is_subdomain(text: str) -> bool:
    return all(map(is_label, text.split(".")))


def is_qualified_name(text: str) -> bool:
    """IsQualifiedName of Kubernetes, without the length of its prefix."""
    *prefixes, name = text.split("/")
    inside = re.fullmatch("[A-Za-z0-9]", name[:1]) and re.fullmatch("[A-Za-z0-9]", name[-1:])
    fine = bool(inside and re.fullmatch("[-A-Za-z0-9_.]{1,63}", name))
    return fine and len(prefixes) < 2 and all(map(is_subdomain, prefixes))


@given(st.text(alphabet="aZ0-._/*", max_size=12))
@example("a..b/x")
@example("-x/-y")
@example("a-.b/x")
@example("a/" + "x" * 63)
@example("a/" + "x" * 64)
@example("*.a..b")
@example("a--b.c0/X_.y")
@settings(max_examples=2000, deadline=None)
def test_names_are_those_that_kubernetes_takes(text: str) -> None:
    assert is_label(text) == bool(re.search(DNS_LABEL, text))
    assert is_subdomain(text) == bool(re.search(DNS_SUBDOMAIN, text))
    assert is_qualified_name(text) == bool(re.search(LABEL_KEY, text))
    assert (is_qualified_name(text) and "/" in text) == bool(re.search(EXTENDED_RESOURCE, text))
    assert is_subdomain(text.removeprefix("*.")) == bool(re.search(HOST_NAME, text))


def routed_by(*parents: dict[str, object]) -> dict[str, object]:
    picker = {"name": "picker"}
    return {"router": {"type": "Gateway", "gateway": {"parentRefs": [*parents], "endpointPickerRef": picker}}}


def annotated(kib: int) -> dict[str, object]:
    """Annotations of so many KiB in all, each of at most 4,096 characters of three bytes."""
    each = 1024 * kib // 32
    notes = {f"example.com/{index:04}": "\u20ac" * ((each - 16) // 3) for index in range(31)}
    rest = 1024 * kib - sum(len(f"{key}{value}".encode()) for key, value in notes.items())
    notes["x"] = "\u20ac" * (rest // 3) + "y" * (rest % 3 - 1)
    return {"pod": {"annotations": notes}}


@pytest.mark.parametrize(
    "changes",
    [
        {"placement": {"nodeSelector": {"a" * 253 + "/x": "y"}}},
        {"engine": {"env": [{"name": ".5"}, {"name": ".a..b"}, {"name": "-"}]}},
        {"router": {"apiKeySecretRef": {"name": "c", "key": ".key..pem"}}},
        routed_by({"name": "web", "group": "", "kind": "Service"}),
        routed_by({"name": "web", "group": "gateway.networking.x-k8s.io", "kind": "XListenerSet"}),
        routed_by({"name": "web"}, {"name": "web", "namespace": "edge"}, {"name": "web", "kind": "XListenerSet"}),
        routed_by({"name": "web", "sectionName": "http"}, {"name": "web", "sectionName": "https"}),
        routed_by({"name": "web", "port": 80}, {"name": "web", "port": 443}),
        annotated(240),
    ],
)
def test_what_kubernetes_takes_is_taken(changes: dict[str, object]) -> None:
    assert told({"model": {"id": "example/model"}, **changes}) == ""


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"engine": {"name": "VLLM", "resources": {"rdma": {"resource": "-x/-y"}}}}, "engine.resources.rdma.resource"),
        ({"engine": {"name": "VLLM", "resources": {"rdma": {"resource": "a..b/x"}}}}, "engine.resources.rdma.resource"),
        (
            {"router": {"type": "Gateway", "gateway": {"parentRefs": [{"name": "web"}], "hostnames": ["a..b"]}}},
            "router.gateway.hostnames",
        ),
        ({"placement": {"nodeSelector": {"a..b/x": "y"}}}, "placement.nodeSelector"),
        ({"placement": {"nodeSelector": {"a" * 254 + "/x": "y"}}}, "placement.nodeSelector"),
        ({"placement": {"tolerations": [{"key": "a" * 254 + "/x"}]}}, "placement.tolerations.0.key"),
        ({"pod": {"labels": {"a" * 254 + "/x": "y"}}}, "pod.labels"),
        ({"pod": {"annotations": {"a" * 254 + "/x": "y"}}}, "pod.annotations"),
        ({"engine": {"env": [{"name": "..", "value": "y"}]}}, "engine.env.0.name"),
        ({"engine": {"env": [{"name": "."}]}}, "engine.env.0.name"),
        ({"model": {"id": "m", "config": {"configMapRef": {"name": "c", "key": "..data"}}}}, "configMapRef.key"),
        ({"router": {"apiKeySecretRef": {"name": "c", "key": "."}}}, "router.apiKeySecretRef.key"),
        (routed_by({"name": "web", "group": "Example.com"}), "router.gateway.parentRefs.0.group"),
        (routed_by({"name": "web", "group": "a b"}), "router.gateway.parentRefs.0.group"),
        (routed_by({"name": "web", "kind": "My Gateway"}), "router.gateway.parentRefs.0.kind"),
        (routed_by({"name": "web", "kind": "1Gateway"}), "router.gateway.parentRefs.0.kind"),
        (routed_by({"name": "web"}, {"name": "web"}), "router.gateway.parentRefs: must name Gateway web once"),
        (
            routed_by({"name": "web"}, {"name": "a"}, {"name": "web", "sectionName": "http"}),
            "router.gateway.parentRefs:",
        ),
        (
            routed_by({"name": "web", "sectionName": "http"}, {"name": "web", "sectionName": "http"}),
            "router.gateway.parentRefs: must name Gateway web once, or each time with another sectionName",
        ),
        (annotated(257), "pod.annotations: must have at most 240 KiB in all"),
    ],
)
def test_what_kubernetes_would_refuse_later_is_refused_when_it_is_read(changes: dict[str, object], field: str) -> None:
    spec: dict[str, object] = {"model": {"id": "example/model"}, **changes}
    assert field in told(spec)
