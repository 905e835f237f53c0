"""`status.proven`: the load at which replicas met their targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.api import parse_pool, pool_status
from weft.domain.calibration import CalibrationSubject, ProvenLoad
from weft.domain.decision import PoolDecision
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import ResourceKey
from weft.domain.status import PoolStatus
from weft.domain.workload import Role, Slo
from weft.scaling import targets_in_words

Json = dict[str, Any]
NOW = 1782892800.0
POOL = ResourceKey("InferencePool", "team", "chat", "uid-chat")


class TestProven:
    """`status.proven` is read back exactly, for counts rest on it."""

    PROVEN = ProvenLoad("Llama as H200 FP8 TP4 on VLLM 0.33.0", "TTFT p95 1.5 s", 0.813, 22, 4600.0, 91.0)

    def written(self) -> Json:
        return pool_status(PoolDecision(POOL, 3, PoolStatus(proven=self.PROVEN), 1, ()), {}, NOW)

    def test_it_is_good_to_read(self) -> None:
        assert self.written()["proven"] == {
            "subject": "Llama as H200 FP8 TP4 on VLLM 0.33.0",
            "targets": "TTFT p95 1.5 s",
            "requestsPerSecond": "0.813",
            "replicas": 22,
            "inputTokens": "4600",
            "outputTokens": "91",
        }
        assert parse_pool({"status": self.written()}).status.proven == self.PROVEN

    def test_the_longest_words_that_there_are_fit(self) -> None:
        """A status with longer ones would be refused as a whole, for ever."""
        every = tuple((percentile, 123.456 + percentile / 1000.0) for percentile in (50, 90, 95, 99))
        release = EngineRelease(EngineName.TensorRTLLM, "1.3.0rc14.post1", "image")
        shape = "GB200 NVFP4 TP16 PP4 DP64 EP256 DCP8 PCP8"
        subject = CalibrationSubject("m" * 256, release, "GB200", Precision.NVFP4, shape)
        words = targets_in_words(Role.Aggregated, Slo(every, every))
        proven = replace(self.PROVEN, subject=subject.words, targets=words)
        written = pool_status(PoolDecision(POOL, 3, PoolStatus(proven=proven), 1, ()), {}, NOW)
        assert parse_pool({"status": written}).status.proven == proven

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("requestsPerSecond", "0"),
            ("requestsPerSecond", "-1"),
            ("replicas", 0),
            ("inputTokens", "0"),
            ("replicas", "2"),
        ],
    )
    def test_what_no_measurement_gives_is_as_if_never_written(self, name: str, value: object) -> None:
        written = self.written()
        written["proven"][name] = value
        assert parse_pool({"status": written}).status.proven is None
