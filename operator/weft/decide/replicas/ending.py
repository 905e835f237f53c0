"""Say why an engine ended, in its own words where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.domain.cluster import ContainerFailure, PodRecord

    ReadFailure = Callable[[PodRecord, str], Explanation | None]  # as the engine of the pod says it

ALLOW_MORE = "spec.rollout.startTimeout allows more"
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
WHY_PODS_END = (  # the most telling first
    Reason.ImageUnavailable,
    Reason.EngineFailed,
    Reason.StartTimedOut,
    Reason.EngineCoreDied,
    Reason.EngineFailedSilently,
)
_OUT_OF_MEMORY = "OOMKilled"
_BY_OTHERS = {137: "SIGKILL", 143: "SIGTERM"}  # no process does that to itself, so that none has a last word


def explain_end(
    pods: Sequence[PodRecord], read_failure: ReadFailure, *, of_several: bool
) -> tuple[PodRecord, Explanation]:
    """Why the most telling of the ended pods ended: an image that cannot be pulled, an engine's own line, then silence.

    The pod is named where it is one `of_several` of its replica.
    """
    said = [(pod, _named(pod, _explain(pod, read_failure), of_several=of_several)) for pod in pods]
    return min(said, key=lambda one: WHY_PODS_END.index(one[1].reason))


def _named(pod: PodRecord, explanation: Explanation, *, of_several: bool) -> Explanation:
    if not of_several or pod.name in explanation.message:
        return explanation
    return Explanation(explanation.reason, f"pod {pod.name}: {explanation.message}")


def _explain(pod: PodRecord, read_failure: ReadFailure) -> Explanation:
    failure = pod.failure
    if failure is None:
        return Explanation(Reason.EngineFailed, pod.message) if pod.message else _silence(pod)
    if failure.reason in IMAGE_REASONS:
        return Explanation(Reason.ImageUnavailable, f"{failure.reason}: {failure.message}".removesuffix(": "))
    return _own_words(pod, failure, read_failure) or _silence(pod)


def _own_words(pod: PodRecord, failure: ContainerFailure, read_failure: ReadFailure) -> Explanation | None:
    """The engine's root cause; else how the kubelet ended it (OOMKilled, Evicted, too slow).

    Else which process is gone; else its last line, unless that cannot be an error: it ended with exit code 0, or
    somebody else ended it.
    """
    texts = [text for text in (failure.message, failure.log_tail) if text]
    found = [explanation for text in texts if (explanation := read_failure(pod, text)) is not None]
    cause = next((each for each in found if each.reason is Reason.EngineFailed), None)
    if cause is not None:
        return cause
    if failure.reason not in _SAYS_NOTHING:
        told = f"{failure.reason}{_memory(failure)}: {failure.message or _exit(failure)}"
        return Explanation(Reason.EngineFailed, told)
    if failure.unanswered_seconds is not None:
        return Explanation(Reason.StartTimedOut, _too_slow(pod, failure.unanswered_seconds))
    if found:
        return Explanation(found[-1].reason, f"{found[-1].message} ({_exit(failure)}); {_cause_unknown(pod)}")
    last = next((lines[-1].strip() for text in texts if (lines := text.strip().splitlines())), "")
    return Explanation(Reason.EngineFailed, last) if last and failure.exit_code not in {0, *_BY_OTHERS} else None


def _memory(failure: ContainerFailure) -> str:
    """What was too little for an engine that ran out of memory, and who can change that; else empty."""
    if failure.reason != _OUT_OF_MEMORY:
        return ""
    if failure.memory_limit:
        return f" (limit {failure.memory_limit}, by spec.engine.resources.memory, a LimitRange or a webhook)"
    return " (it has no limit of its own, so its node ran out of memory)"


def _too_slow(pod: PodRecord, passed: float) -> str:
    hint = f"kubectl logs -n {pod.namespace} {pod.name} says how far it came"
    return f"the engine in pod {pod.name} did not answer for {seconds(passed)} and was ended: {hint}; {ALLOW_MORE}"


def _exit(failure: ContainerFailure) -> str:
    if failure.exit_code is None:
        return "no exit code"
    signal = _BY_OTHERS.get(failure.exit_code)
    return f"exit code {failure.exit_code}" + (f" ({signal})" if signal else "")


def _silence(pod: PodRecord) -> Explanation:
    ended = f"{_what(pod)} ended" + (f" with {_exit(pod.failure)}" if pod.failure is not None else "")
    return Explanation(Reason.EngineFailedSilently, f"{ended}; {_cause_unknown(pod)}")


def _what(pod: PodRecord) -> str:
    sidecar = pod.failure.beside if pod.failure is not None else ""
    return f"sidecar {sidecar} of pod {pod.name}" if sidecar else f"pod {pod.name}"


def _cause_unknown(pod: PodRecord) -> str:
    sidecar = pod.failure.beside if pod.failure is not None else ""
    hint = f"kubectl logs -n {pod.namespace} {pod.name}" + (f" -c {sidecar}" if sidecar else "")
    if pod.failure is not None and pod.failure.log_forbidden:
        return f"its log may not be read by Weft: grant pods/log, or run: {hint}"
    return f"its last lines name no cause: {hint}"
