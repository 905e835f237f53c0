"""Say why an engine ended, in its own words where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.domain.cluster import ContainerFailure, PodRecord

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
# What the kubelet says of any container that ended by itself: no news.
_SAYS_NOTHING = frozenset({"", "Error", "Completed", "Failed"})


def explain_end(pods: Sequence[PodRecord], failure_line: Callable[[str], str | None]) -> Explanation:
    """The most telling of the pods that ended: an image that cannot be pulled, an engine's own line, then silence."""
    said = [_explain(pod, failure_line) for pod in pods]
    order = (Reason.ImageUnavailable, Reason.EngineFailed, Reason.EngineFailedSilently)
    return min(said, key=lambda explanation: order.index(explanation.reason))


def _explain(pod: PodRecord, failure_line: Callable[[str], str | None]) -> Explanation:
    failure = pod.failure
    if failure is not None and failure.reason in IMAGE_REASONS:
        return Explanation(Reason.ImageUnavailable, f"{failure.reason}: {failure.message}".removesuffix(": "))
    words = _own_words(failure, failure_line) if failure is not None else pod.message
    if words:
        return Explanation(Reason.EngineFailed, words)
    return Explanation(Reason.EngineFailedSilently, _silence(pod))


def _own_words(failure: ContainerFailure, failure_line: Callable[[str], str | None]) -> str:
    """The engine's error line; else how the kubelet ended it (OOMKilled, Evicted); else its last line."""
    texts = [text for text in (failure.message, failure.log_tail) if text]
    line = next((found for text in texts if (found := failure_line(text))), None)
    if line:
        return line
    if failure.reason not in _SAYS_NOTHING:
        return f"{failure.reason}: {failure.message or _exit(failure)}"
    return next((lines[-1].strip() for text in texts if (lines := text.strip().splitlines())), "")


def _exit(failure: ContainerFailure) -> str:
    return "no exit code" if failure.exit_code is None else f"exit code {failure.exit_code}"


def _silence(pod: PodRecord) -> str:
    ended = f"pod {pod.name} ended" + (f" with {_exit(pod.failure)}" if pod.failure is not None else "")
    hint = f"kubectl logs -n {pod.namespace} {pod.name}"
    if pod.failure is not None and pod.failure.log_forbidden:
        return f"{ended}; its log may not be read by Weft: grant pods/log, or run: {hint}"
    return f"{ended} and said nothing: {hint}"
