"""Credentials that cannot be read: one reason at the start, and no end of the operator later."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.config import incluster_config

from weft.control.connection import connect, kopf_connection
from weft.control.options import RunOptions
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from pathlib import Path

MISSING, EMPTY, NO_TEXT = None, b"", b"\xff\xfe\xff"


def kubeconfig(folder: Path, token: bytes | None) -> RunOptions:
    """A kubeconfig whose user has a token in a file with these contents; None: there is no file."""
    if token is not None:
        (folder / "token").write_bytes(token)
    user = {"name": "u", "user": {"tokenFile": str(folder / "token")}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
    body: dict[str, Any] = {"users": [user], "clusters": [cluster], "contexts": contexts, "current-context": "x"}
    (folder / "config").write_text(yaml.safe_dump(body))
    return RunOptions(kubeconfig=str(folder / "config"))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the token of a pod's service account."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "ca.crt").write_text("certificate")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    return tmp_path / "token"


@pytest.mark.parametrize("token", [MISSING, NO_TEXT])
def test_a_token_file_of_a_kubeconfig_that_cannot_be_read_is_one_reason(tmp_path: Path, token: bytes | None) -> None:
    with pytest.raises(Blocked) as told:
        connect(kubeconfig(tmp_path, token))
    assert Reason.ApiUnavailable is told.value.reason


@pytest.mark.parametrize(("token", "said"), [(MISSING, "token"), (EMPTY, "Token"), (NO_TEXT, "decode")])
def test_in_a_pod_the_reason_is_about_its_own_token(pod: Path, token: bytes | None, said: str) -> None:
    """And not that it has no kubeconfig, which nobody expects there."""
    if token is not None:
        pod.write_bytes(token)
    with pytest.raises(Blocked) as told:
        connect(RunOptions())
    assert said in told.value.message
    assert "kube-config" not in told.value.message


@pytest.mark.parametrize("broken", [MISSING, EMPTY, NO_TEXT])
def test_a_token_that_cannot_be_read_again_stays_the_last_one(
    pod: Path, broken: bytes | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client reads it before a request, after a minute: every loop would end by an error that is not the API's."""
    pod.write_text("first")
    client = connect(RunOptions())
    assert "first" == kopf_connection(client).token
    clock = SimpleNamespace(datetime=AnHourOn, timedelta=timedelta)
    monkeypatch.setattr("kubernetes.config.incluster_config.datetime", clock)
    pod.unlink() if broken is MISSING else pod.write_bytes(broken)
    with caplog.at_level(logging.WARNING):
        assert ["first"] * 3 == [kopf_connection(client).token for _ in range(3)]
    assert 1 == len(caplog.records)
    pod.write_text("second")
    assert "second" == kopf_connection(client).token


class AnHourOn:
    """The clock, an hour on."""

    @staticmethod
    def now() -> datetime:
        return datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - as the client asks it
