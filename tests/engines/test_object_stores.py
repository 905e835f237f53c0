"""Weights out of an object store, by engine and release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import LLAMA, RELEASES, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ModelSource, ModelSpec, Pairs, SourceKind
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for

ACCOUNT = ("AZURE_STORAGE_ACCOUNT_NAME", "weights")


def launch(
    uri: str,
    version: str = "0.32.0",
    engine: EngineName = EngineName.VLLM,
    credentials: str | None = "store",
    env: Pairs = (),
) -> ContainerLaunch:
    source = ModelSource(SourceKind.URI, uri, secret=credentials)
    wanted = spec(model=ModelSpec(LLAMA, source=source), engine=EngineSpec(env=env))
    at = plan(shape(engine=engine), replace(RELEASES[engine], version=version))
    return adapter_for(engine).launch(LaunchRequest(wanted, at))


@pytest.mark.parametrize(
    ("uri", "version", "engine"),
    [
        ("s3://bucket/m", "0.10.0", EngineName.VLLM),
        ("gs://bucket/m", "0.10.2", EngineName.VLLM),
        ("az://container/m", "0.18.0", EngineName.VLLM),
        ("az://container/m", "0.33.0", EngineName.VLLM),
        ("az://container/m", "0.5.10.post1", EngineName.SGLang),
    ],
)
def test_weights_are_streamed_with_credentials_out_of_the_secret(uri: str, version: str, engine: EngineName) -> None:
    found = launch(uri, version, engine)
    assert f"{uri} " in " ".join(found.command)
    assert "--load-format runai_streamer" in " ".join(found.command)
    assert found.secrets_as_env == ("store",)


@pytest.mark.parametrize(
    ("uri", "version", "engine", "said"),
    [
        ("gs://b/m", "0.10.1", EngineName.VLLM, "vLLM 0.10.1 streams no weights from gs://: use 0.10.2 or later"),
        ("az://b/m", "0.17.1", EngineName.VLLM, "vLLM 0.17.1 streams no weights from az://: use 0.18.0 or later"),
        ("az://b/m", "0.5.8", EngineName.SGLang, "SGLang 0.5.8 streams no weights from az://: use 0.5.10 or later"),
        ("oss://b/m", "0.32.0", EngineName.VLLM, "no weights from oss://b/m: use s3://, gs://, az://"),
    ],
)
def test_a_store_that_the_release_does_not_read_is_refused_by_name(
    uri: str, version: str, engine: EngineName, said: str
) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        launch(uri, version, engine)
    assert refused.value.reason is Reason.FeatureUnsupported


def test_azure_needs_the_name_of_an_account_from_somewhere() -> None:
    with pytest.raises(Invalid, match="AZURE_STORAGE_ACCOUNT_NAME") as refused:
        launch("az://container/m", credentials=None)
    assert refused.value.reason is Reason.SpecInvalid
    assert launch("az://container/m", credentials=None, env=(ACCOUNT,)).secrets_as_env == ()
    assert launch("s3://bucket/m", credentials=None).secrets_as_env == ()
