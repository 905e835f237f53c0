"""The real API server as kubectl talks to it: strict field validation, plain JSON, its words kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.domain.labels import API_VERSION

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Json = dict[str, Any]
PLURALS = {"InferencePool": "inferencepools", "PDSplit": "pdsplits"}
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
STRICT = [("fieldValidation", "Strict")]


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and warnings of one call."""

    status: int
    body: Json = field(hash=False)
    warnings: str = ""

    @property
    def taken(self) -> bool:
        """Whether the server did as it was told."""
        return 200 <= self.status < 300

    @property
    def words(self) -> str:
        """What the server says about a refusal."""
        return str(self.body.get("message", ""))

    def expect_taken(self) -> Json:
        """The object as the server keeps it."""
        assert self.taken, self.words
        return self.body

    def expect_refused(self, *words: str) -> None:
        """A refusal for what was sent, which says all of these words."""
        assert self.status in {400, 422}, f"{self.status}: {self.words or self.body}"
        missing = [word for word in words if word not in self.words]
        assert not missing, f"{missing} not in: {self.words}"


@dataclass(frozen=True, slots=True)
class Server:
    """One namespace."""

    client: ApiClient = field(repr=False)
    namespace: str

    def create(self, body: Json, query: list[tuple[str, str]] = STRICT) -> Answer:
        """POST as `kubectl create` does."""
        return self.send("POST", self.path(body["kind"]), body, query=query)

    def apply(self, body: Json, manager: str = "kubectl") -> Answer:
        """Server-side apply."""
        query = [*STRICT, ("fieldManager", manager)]
        return self.send("PATCH", self.path(body["kind"], body["metadata"]["name"]), body, query=query)

    def merge(self, kind: str, name: str, patch: Json, subresource: str = "") -> Answer:
        """Merge patch, of the object or of a subresource."""
        return self.send("PATCH", self.path(kind, name, subresource), patch, query=STRICT, content_type=MERGE_PATCH)

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """Address of a collection, an object or a subresource."""
        parts = ["/apis", API_VERSION, "namespaces", self.namespace, PLURALS[kind], name, subresource]
        return "/".join(part for part in parts if part)

    def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: list[tuple[str, str]] | None = None,
        content_type: str = "",
    ) -> Answer:
        """One call."""
        content_type = content_type or (APPLY_PATCH if method == "PATCH" else "application/json")
        return self._call(method, path, body, (query or [], content_type))

    def table(self, kind: str) -> list[Json]:
        """Columns as `kubectl get` prints them."""
        columns: list[Json] = self._call(
            "GET", self.path(kind), None, ([], "application/json"), "application/json;as=Table;v=v1;g=meta.k8s.io"
        ).expect_taken()["columnDefinitions"]
        return columns

    def _call(
        self, method: str, path: str, body: Json | None, how: tuple[list[tuple[str, str]], str], accept: str = ""
    ) -> Answer:
        query, content_type = how
        serialized = self.client.param_serialize(
            method,
            path,
            query_params=query,
            header_params={"Accept": accept or "application/json", "Content-Type": content_type},
            body=_encoded(body, content_type),
            auth_settings=["BearerToken"],
        )
        response = self.client.call_api(*serialized, _request_timeout=30)
        content = json.loads(response.read() or b"{}")
        return Answer(response.status, content, str(response.headers.get("Warning", "")))


def _encoded(body: Json | None, content_type: str) -> Json | bytes | None:
    """Server-side apply reads YAML, in which the surrogate pairs of JSON's ASCII are no characters: it gets UTF-8."""
    if body is None or content_type != APPLY_PATCH:
        return body
    return json.dumps(body, ensure_ascii=False).encode()
