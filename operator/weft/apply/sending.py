"""One write to the API server: exact method, content type and query, and errors by how to recover from them.

The client's own `patch_*` methods send merge patches even if given a field manager, so the content type is set here,
once. Answers outside 2xx come back as values; only an unreachable or overloaded server raises.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from weft.apply.token_bucket import LONGEST_HOLD_SECONDS
from weft.domain.errors import Blocked, Retry
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from weft.apply.token_bucket import TokenBucket

Json = dict[str, Any]

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"  # as a merge patch, but matches list items by their keys
PLAIN_JSON = "application/json"
_NOT_PRINTABLE_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WEBHOOK_IS_AWAY = 'failed calling webhook "'  # with status 500
# The others may have any status that a webhook or the author of a policy chose.
_OF_ADMISSION = (_WEBHOOK_IS_AWAY, 'admission webhook "', "ValidatingAdmissionPolicy '")
# An API server answers within 60 s, and says which webhook it waited for: those may take 30. Whoever hangs up before
# learns nothing, and takes it for a server that cannot be reached.
WRITE_TIMEOUT_SECONDS = (5.0, 65.0)

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, UNPROCESSABLE, TOO_MANY = 401, 403, 404, 409, 422, 429
TIMED_OUT, GONE = 408, 410
SERVER_ERRORS = 500


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One call. `body` is plain JSON (a list for a JSON patch)."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = field(default=None, hash=False)
    content_type: str = PLAIN_JSON


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """The answer of the API server; `message` is its sentence if it refused."""

    status: int
    body: Json = field(default_factory=dict, hash=False)

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300  # noqa: PLR2004 - the HTTP success class

    @property
    def message(self) -> str:
        """The API server's own message."""
        return str(self.body.get("message") or f"HTTP {self.status}")

    @property
    def of_admission(self) -> bool:
        """Whether admission (a webhook or policy) refused the request or did not answer; the API server works."""
        return not self.ok and any(words in self.message for words in _OF_ADMISSION)

    @property
    def finds_nothing(self) -> bool:
        """Whether the API server has no such object."""
        return self.status == NOT_FOUND and not self.of_admission

    @property
    def conflicts(self) -> bool:
        """Whether the request conflicts with the live object: another version, UID or field owner."""
        return self.status == CONFLICT and not self.of_admission

    @property
    def webhook_is_away(self) -> bool:
        """Whether an admission webhook did not answer, so that nobody refused anything."""
        return self.status >= SERVER_ERRORS and _WEBHOOK_IS_AWAY in self.message


class RetryLater(Retry):
    """A `Retry` for which the API server named the delay."""

    def __init__(self, message: str, seconds: float) -> None:
        """`seconds` is the delay that Retry-After asked for."""
        super().__init__(Reason.ApiUnavailable, message)
        self.seconds = seconds


class Unanswered(Blocked):
    """The request was neither carried out nor refused: that may last, for a whole kind or a single object."""


class ServerError(Unanswered):
    """The API server failed on a request: it may be broken altogether, or fail on this object for ever.

    The latter happens for an object too large for etcd, or whose managed fields fit no schema.
    """

    def __init__(self, message: str) -> None:
        """`message` is the server's own."""
        super().__init__(Reason.ApiUnavailable, message)


class Sender:
    """Sends requests through the write limit, for as long as this process may write."""

    def __init__(
        self,
        client: ApiClient,
        bucket: TokenBucket,
        may_write: Callable[[], bool] = lambda: True,
        timeout: tuple[float, float] = WRITE_TIMEOUT_SECONDS,
    ) -> None:
        """Thread-safe as its arguments are. `timeout`: seconds to connect, and to wait for an answer."""
        self._client = client
        self._bucket = bucket
        self._may_write = may_write
        self._timeout = timeout

    def send(self, request: ApiRequest) -> ApiResponse:
        """Carry out one write. Raises `Retry` if the server is unreachable or overloaded, `ServerError` if it fails."""
        self._bucket.wait()
        self.expect_to_write()
        return self._call(request)

    def expect_to_write(self) -> None:
        """Raise `Retry` if another operator may lead by now."""
        if not self._may_write():
            raise Retry(Reason.ApiUnavailable, "this operator does not lead any more, and writes nothing")

    def get(self, path: str) -> ApiResponse:
        """Read one object outside the write limit."""
        return self._call(ApiRequest("GET", path))

    def _call(self, request: ApiRequest) -> ApiResponse:
        serialized = self._client.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query),
            header_params={"Accept": PLAIN_JSON, "Content-Type": request.content_type},
            body=_as_yaml(request.body) if request.content_type == APPLY_PATCH else request.body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*serialized, _request_timeout=self._timeout)
            content = response.read()
        except (HTTPError, ApiException, OSError) as error:
            raise Retry(Reason.ApiUnavailable, f"the API server cannot be reached: {_brief(error)}") from error
        body = _json(content)
        if body is None and 200 <= response.status < 300:  # noqa: PLR2004 - the HTTP success class
            # A proxy or a login page: nothing was carried out, whatever it says.
            raise Retry(Reason.ApiUnavailable, f"what answers is no API server: {_text(content)[:100]!r}")
        told = {"message": _text(content)} if body is None else body
        return self._understood(response.status, told, response.headers.get("Retry-After"))

    def _understood(self, status: int, body: Json, retry_after: str | None) -> ApiResponse:
        answer = ApiResponse(status, body)
        if answer.of_admission:
            return answer
        seconds = _delay_seconds(retry_after)
        if seconds is not None and status in {TOO_MANY, 503}:
            self._bucket.hold(seconds)
            raise RetryLater(answer.message, seconds)
        if status >= SERVER_ERRORS:
            raise ServerError(answer.message)
        if status in {UNAUTHORIZED, TOO_MANY}:
            raise Retry(Reason.ApiUnavailable, answer.message)
        return answer


def object_path(api_version: str, plural: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Path of a namespaced object (or, without a name, of its collection); every part is quoted."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    parts = [quote(part, safe="") for part in ("namespaces", namespace, plural, name, subresource) if part]
    return "/".join([root, *parts])


def _as_yaml(body: Any) -> bytes:  # noqa: ANN401 - any JSON
    """JSON that is valid YAML too, as which the API server parses an apply.

    YAML has no surrogate pairs (JSON's ASCII form of an emoji) and no raw control characters (as in its UTF-8 form).
    """
    text = json.dumps(body, ensure_ascii=False)
    return _NOT_PRINTABLE_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def _json(content: bytes | None) -> Json | None:
    """The object in an answer, empty where it has no body; None for anything that no API server answers."""
    try:
        value = json.loads(content or b"{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", errors="replace")[:500]


def _delay_seconds(text: str | None) -> float | None:
    """Seconds of a Retry-After header, limited to the longest hold; None for a date or anything else."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return min(float(text), LONGEST_HOLD_SECONDS)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
