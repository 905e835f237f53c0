"""GET requests to the API server as plain JSON: typed client models take about 38 KB per pod, these a tenth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubernetes.client.exceptions import ApiException

from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubernetes.client import ApiClient

Json = dict[str, Any]
READ_TIMEOUT_SECONDS = (5.0, 30.0)  # to connect, and between bytes
PAGE_ITEMS = 500
FORBIDDEN, NOT_FOUND, GONE, BAD_GATEWAY = 403, 404, 410, 502
OURS = (("labelSelector", f"{labels.MANAGED_BY}={labels.MANAGED_BY_WEFT}"),)  # selects objects that Weft manages


class Reader:
    """Reads from one API server. Raises `kubernetes.client.ApiException` on any answer outside 2xx, or without JSON."""

    def __init__(self, client: ApiClient, hear_date: Callable[[str | None], None] = lambda _: None) -> None:
        """Shares the client's connection pool; thread-safe as the client is. `hear_date` gets each answer's Date."""
        self._client = client
        self._hear_date = hear_date

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """One object or list as plain JSON."""
        content = self._raw(path, query or {}, READ_TIMEOUT_SECONDS).data
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ApiException(status=BAD_GATEWAY, reason="what answers is no API server")
        return answer

    def text(self, path: str, query: Mapping[str, str]) -> str:
        """A body other than JSON, such as a log."""
        return bytes(self._raw(path, query, READ_TIMEOUT_SECONDS).data).decode("utf-8", errors="replace")

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Json]:
        """Every page of one consistent list; raises (410) if the continue token expires in between."""
        page = self.get(path, {**query, "limit": str(PAGE_ITEMS)})
        yield page
        while token := (page.get("metadata") or {}).get("continue"):
            page = self.get(path, {**query, "limit": str(PAGE_ITEMS), "continue": token})
            yield page

    def stream(self, path: str, query: Mapping[str, str], timeout_seconds: tuple[float, float]) -> Any:  # noqa: ANN401 - a urllib3 response, which is what the informer reads
        """The open response of a watch."""
        return self._raw(path, query, timeout_seconds)

    def _raw(self, path: str, query: Mapping[str, str], timeout_seconds: tuple[float, float]) -> Any:  # noqa: ANN401 - a urllib3 response
        request = self._client.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json, */*"},
            auth_settings=["BearerToken"],
        )
        answer = self._client.call_api(*request, _request_timeout=timeout_seconds)
        self._hear_date(answer.response.headers.get("Date"))
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - the HTTP success class
            answer.read()
            raise ApiException(http_resp=answer)
        return answer.response


def has_nothing_for_us(error: ApiException) -> bool:
    """Whether a kind or object does not exist or may not be read; any other error is an outage."""
    return error.status in {FORBIDDEN, NOT_FOUND}


def resource_path(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """The path of a collection or an object; every part is quoted."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    parts = [*(["namespaces", namespace] if namespace else []), plural, *([name] if name else [])]
    return "/".join([root, *(quote(part, safe="") for part in parts)])
