"""Random valid specs, made from pydantic's own schema of the models: every field of the API occurs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from weft.api.rules import ApiModel

Json = dict[str, Any]

ALPHABET = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
QUANTITIES = st.sampled_from([1, 7, "500m", "1.5", "64Gi", "2e3", "100k", 250])
DURATIONS = st.sampled_from(["300ms", "1s", "90s", "5m", "1h30m", "1h2m3s4ms"])
LIMITS = st.sampled_from([1, 2, 1000, "1%", "25%", "100%"])
INSTANTS = st.sampled_from(["2026-07-01T08:00:00Z", "2026-07-01T08:00:00.25+02:00"])
KEYS = st.sampled_from(["team", "example.com/team", "a-b.c_d", "x"])
LITERAL_MAPS: SearchStrategy[Json] = st.dictionaries(
    st.sampled_from(["hidden_size", "rope", "list"]), st.sampled_from([None, 1, [1, None], {}]), max_size=2
)


def specs(model: type[ApiModel]) -> SearchStrategy[Json]:
    """Specs that the model takes."""

    def is_valid(body: Json) -> bool:  # by name: Python 3.11 cannot parse a lambda's source deep in a stack
        return _is_valid(model, body)

    return _Maker(model).whole().map(_mended).filter(is_valid)


def _is_valid(model: type[ApiModel], body: Json) -> bool:
    try:
        model.model_validate(body)
    except ValidationError:
        return False
    return True


class _Maker:
    """Strategies for one model and what it refers to."""

    def __init__(self, model: type[ApiModel]) -> None:
        self._schema = model.model_json_schema(by_alias=True)
        self._defined = cache(self._definition)

    def whole(self) -> SearchStrategy[Json]:
        return self._object(self._schema)

    def _definition(self, name: str) -> SearchStrategy[Any]:
        return self._value(self._schema["$defs"][name])

    def _value(self, node: Json) -> SearchStrategy[Any]:
        if "$ref" in node:
            return self._defined(node["$ref"].rpartition("/")[2])
        if "anyOf" in node:
            return st.one_of(*(self._value(one) for one in node["anyOf"] if one.get("type") != "null"))
        if "enum" in node or "const" in node:
            return st.sampled_from(node.get("enum") or [node["const"]])
        if node.get("x-kubernetes-preserve-unknown-fields"):
            return LITERAL_MAPS
        if node.get("x-kubernetes-int-or-string"):
            return LIMITS if "%" in node["pattern"] else QUANTITIES
        kinds: dict[str, Callable[[Json], SearchStrategy[Any]]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
        }
        return kinds.get(node["type"], _number)(node)

    def _object(self, node: Json) -> SearchStrategy[Json]:
        if "properties" not in node:
            return self._map(node)
        required = set(node.get("required", ()))
        members = {name: self._value(member) for name, member in node["properties"].items()}
        return st.fixed_dictionaries(
            {name: value for name, value in members.items() if name in required},
            optional={name: value for name, value in members.items() if name not in required},
        )

    def _map(self, node: Json) -> SearchStrategy[Json]:
        values = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), None)
        keys = st.sampled_from(node["propertyNames"]["enum"]) if "enum" in node.get("propertyNames", {}) else KEYS
        return st.dictionaries(keys, self._value(values) if isinstance(values, dict) else st.nothing(), max_size=3)

    def _array(self, node: Json) -> SearchStrategy[list[Any]]:
        kind = node.get("x-kubernetes-list-type")
        unique = {"set": lambda item: item, "map": lambda item: item["name"]}.get(str(kind))
        return st.lists(self._value(node["items"]), min_size=node.get("minItems", 0), max_size=3, unique_by=unique)

    def _string(self, node: Json) -> SearchStrategy[str]:
        if node.get("format") == "date-time":
            return INSTANTS
        if "ms" in node.get("pattern", ""):
            return DURATIONS
        least, most = node.get("minLength", 0), min(node.get("maxLength", 20), 20)
        if "pattern" in node:
            return st.from_regex(node["pattern"], fullmatch=True, alphabet=ALPHABET).filter(
                lambda text: least <= len(text) <= most and not text.endswith("\n")
            )
        return st.text(ALPHABET, min_size=least, max_size=most)


def _number(node: Json) -> SearchStrategy[Any]:
    if node["type"] == "boolean":
        return st.booleans()
    return st.integers(max(node.get("minimum", 1), 0), node.get("maximum", 100))


def _mended(body: Json) -> Json:
    """Random fields rarely agree with each other; this makes the pairs that have to."""
    _keep_one(body.get("model", {}), "source")
    _keep_one(body.get("model", {}), "config")
    _order(body.get("workload", {}).get("inputTokens", {}), "mean", "p95")
    _order(body.get("workload", {}).get("outputTokens", {}), "mean", "p95")
    for whole in (body, body.get("prefill", {}), body.get("decode", {})):
        _mend_sections(whole)
    if body.get("role", "Aggregated") == "Aggregated" and "role" in body:
        body.pop("kvTransfer", None)
    router = body.get("router", {})
    if "gateway" in router:
        router["type"] = "Gateway"
    elif router.get("type") == "Gateway":
        del router["type"]
    if "ratio" in body:
        body["ratio"].pop("max", None)
        body.get("scaling", {}).pop("mode", None)
    return body


def _mend_sections(whole: Json) -> None:
    _mend_engine(whole.get("engine", {}))
    _mend_scaling(whole.get("scaling", {}), is_split="ratio" in whole)
    scheduler = whole.get("placement", {}).get("scheduler", {})
    scheduler |= {"name": "Kueue"} if "queue" in scheduler else {}
    if "queue" not in scheduler:
        scheduler.pop("name", None)
    for toleration in whole.get("placement", {}).get("tolerations", []):
        toleration.pop("value", None)
        toleration["operator"] = "Exists"
        toleration.update({"effect": "NoExecute"} if "tolerationSeconds" in toleration else {})


def _mend_engine(engine: Json) -> None:
    if engine.get("name", "Auto") == "Auto":
        for name in ("version", "image", "args"):
            engine.pop(name, None)
    speculative = engine.get("speculative", {})
    if speculative:
        speculative["method"] = "EAGLE3" if "model" in speculative else "MTP"


def _mend_scaling(scaling: Json, *, is_split: bool) -> None:
    if "minReplicas" in scaling:
        scaling["minReplicas"] = max(1, min(scaling["minReplicas"], scaling.get("maxReplicas", 10), 10))
    if scaling.pop("replicas", None) is not None and "mode" in scaling:
        scaling |= {"mode": "External", "replicas": 3}
    elif not is_split:
        scaling.pop("mode", None)


def _keep_one(parent: Json, name: str) -> None:
    if name in parent:
        first = next(iter(sorted(parent[name])), None)
        if first is None:
            del parent[name]
        else:
            parent[name] = {first: parent[name][first]}


def _order(parent: Json, low: str, high: str) -> None:
    if low in parent and high in parent:
        parent[low], parent[high] = sorted((parent[low], parent[high]))
