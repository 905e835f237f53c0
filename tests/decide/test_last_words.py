"""What is told of a container that ended: its own words, or the command and the permission that show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_failures import failure_of, serving_world
from weft.domain.cluster import ContainerFailure
from weft.domain.reasons import Reason


@pytest.mark.parametrize(("engine", "told"), [("vllm", True), ("", True), ("sglang", False)])
def test_last_words_are_read_as_those_of_the_engine_in_the_pod(engine: str, *, told: bool) -> None:
    """Its pool, of vLLM, may have run another one before."""
    world = serving_world()
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], engine=engine)
    words = "(EngineCore pid=1) ERROR 11-22 10:00:00 [core.py:700] ValueError: no memory\nwhatever comes last"
    world.end("chat-0-0", ContainerFailure("Error", words, exit_code=1))
    world.turn()
    assert ("ValueError: no memory" in world.condition("chat", "Placed")[2]) is told


def test_a_silent_end_names_the_command_that_shows_the_log() -> None:
    world = serving_world()
    world.end("chat-0-0", ContainerFailure("Error", "", exit_code=1))
    world.turn()
    assert failure_of(world)[0] is Reason.EngineFailedSilently
    assert "kubectl logs -n team chat-0-0" in world.condition("chat", "Placed")[2]


def test_a_sidecar_that_ends_beside_an_engine_that_never_answered_is_named() -> None:
    world = serving_world()
    world.end("chat-0-0", ContainerFailure("Error", "", exit_code=1, beside="shipper"))
    world.turn()
    told = world.condition("chat", "Placed")[2]
    assert "sidecar shipper of pod chat-0-0 ended with exit code 1" in told
    assert "kubectl logs -n team chat-0-0 -c shipper" in told


def test_a_log_that_may_not_be_read_says_which_permission_is_missing() -> None:
    world = serving_world()
    world.end("chat-0-0", ContainerFailure("Error", "", exit_code=1, log_forbidden=True))
    world.turn()
    assert "pods/log" in world.condition("chat", "Placed")[2]


@pytest.mark.parametrize(
    ("failure", "reason", "words"),
    [
        (
            ContainerFailure("OOMKilled", "", exit_code=137),
            Reason.EngineFailed,
            "OOMKilled (it has no limit of its own, so its node ran out of memory): exit code 137 (SIGKILL)",
        ),
        (
            ContainerFailure("OOMKilled", "", exit_code=137, memory_limit="1Gi"),
            Reason.EngineFailed,
            (
                "OOMKilled (limit 1Gi, by spec.engine.resources.memory, a LimitRange or a webhook): "
                "exit code 137 (SIGKILL)"
            ),
        ),
        (
            ContainerFailure("Error", "", 1, log_tail="x\nRuntimeError: boom\n"),
            Reason.EngineFailed,
            "RuntimeError: boom",
        ),
        (ContainerFailure("Error", "plain words", 1), Reason.EngineFailed, "plain words"),
        (
            ContainerFailure("Completed", "", 0, log_tail="engine core exited unexpectedly; starting cleanup\n"),
            Reason.EngineCoreDied,
            "engine core exited unexpectedly; starting cleanup (exit code 0); its last lines name no cause",
        ),
        (
            ContainerFailure("OOMKilled", "", 137, log_tail="EngineDeadError: EngineCore encountered an issue.\n"),
            Reason.EngineFailed,
            "OOMKilled (it has no limit of its own, so its node ran out of memory): exit code 137 (SIGKILL)",
        ),
        (
            ContainerFailure("Completed", "", 0, log_tail="INFO:     Finished server process [1]\n"),
            Reason.EngineFailedSilently,
            "ended with exit code 0; its last lines name no cause",
        ),
        (
            ContainerFailure("Error", 'INFO:     10.0.0.1:51466 - "GET /metrics HTTP/1.1" 200 OK\n', 137),
            Reason.EngineFailedSilently,
            "ended with exit code 137 (SIGKILL); its last lines name no cause",
        ),
        (ContainerFailure("ErrImagePull", "not found"), Reason.ImageUnavailable, "ErrImagePull: not found"),
        (ContainerFailure("ImagePullBackOff", ""), Reason.ImageUnavailable, "ImagePullBackOff"),
        (ContainerFailure("CreateContainerConfigError", 'secret "x" not found'), Reason.EngineFailed, 'secret "x"'),
    ],
)
def test_every_way_to_end_has_its_reason(failure: ContainerFailure, reason: Reason, words: str) -> None:
    world = serving_world()
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], failure=failure, ready=False)
    world.turn()
    recorded = world.status("chat").failure
    assert recorded is not None
    assert recorded.explanation.reason is reason
    assert words in recorded.explanation.message


def test_a_core_that_died_behind_a_log_that_may_not_be_read_names_the_permission() -> None:
    """The termination message ends with who is gone; why stands further up, where only the log reaches."""
    world = serving_world()
    said = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    world.end("chat-0-0", ContainerFailure("Error", said, exit_code=1, log_forbidden=True))
    world.turn()
    assert failure_of(world)[0] is Reason.EngineCoreDied
    assert "grant pods/log, or run: kubectl logs -n team chat-0-0" in world.condition("chat", "Placed")[2]
