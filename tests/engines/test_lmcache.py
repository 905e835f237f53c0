"""LMCache behind vLLM: what each rank keeps in host memory and on disks, and that its processes find it again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.render.pools import RELEASE, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, KVSpec, ModelSpec, PoolSpec
from weft.domain.texts.units import GIB
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for
from weft.engines.kv.disks import EPHEMERAL, FILLED
from weft.engines.kv.host_memory import pod_needs

ONE_POD = shape(4)
RANKS_IN_PODS_OF_THEIR_OWN = shape(4, data_parallel=2, gpus_per_pod=4)


def keeping(disk: str = ',"diskGiB":1000', **engine: Any) -> PoolSpec:  # noqa: ANN401 - fields of EngineSpec
    kept = KVSpec(offload_json=f'{{"backend":"LMCache","size":"64Gi"{disk}}}')
    return spec(kv=kept, engine=EngineSpec(**engine))


def launched(wanted: PoolSpec, pods: Shape = ONE_POD, version: str = "0.33.0") -> ContainerLaunch:
    chosen = plan(pods, replace(RELEASE, version=version))
    return adapter_for(EngineName.VLLM).launch(LaunchRequest(wanted, chosen, leader_host="leader"))


def connector(launch: ContainerLaunch) -> dict[str, Any]:
    words = launch.command
    said: dict[str, Any] = json.loads(words[words.index("--kv-transfer-config") + 1])
    return said


def variables(launch: ContainerLaunch) -> dict[str, str]:
    return {each.name: each.value for each in launch.env}


@pytest.mark.parametrize(("pods", "gib"), [(ONE_POD, 1000), (RANKS_IN_PODS_OF_THEIR_OWN, 500)])
def test_ranks_of_a_pod_keep_less_together_than_its_volume_holds(pods: Shape, gib: int) -> None:
    """Past the limit of its volume the kubelet ends the pod."""
    found = launched(keeping(), pods)
    keeps = connector(found)["kv_connector_extra_config"]
    assert found.disk_bytes == gib * GIB
    assert 0.99 * FILLED * gib < 4 * keeps["lmcache.max_local_disk_size"] <= FILLED * gib
    assert keeps["lmcache.local_disk"] == "/kv/"
    assert pods.gpus * keeps["lmcache.max_local_cpu_size"] == 64
    assert dict(pod_needs(keeping(), plan(pods)))[EPHEMERAL] == str(gib * GIB)


def test_nothing_is_on_disks_unless_it_is_asked_for() -> None:
    found = launched(keeping(""))
    assert found.disk_bytes == 0
    assert connector(found) == {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "lmcache.local_cpu": True,
            "lmcache.max_local_cpu_size": 16,
            "lmcache.pre_caching_hash_algorithm": "sha256_cbor",
        },
    }


def test_the_connector_is_named_once_the_flags_mean_a_server_that_nobody_starts() -> None:
    """Before, they mean the same connector, and pods that run stay as they are."""
    before, since = launched(keeping(""), version="0.22.1"), launched(keeping(""), version="0.23.0")
    assert "--kv-offloading-size 64 --kv-offloading-backend lmcache" in " ".join(before.command)
    assert "--kv-transfer-config" not in before.command
    assert "PYTHONHASHSEED" not in variables(before)
    assert connector(since)["kv_connector"] == "LMCacheConnectorV1"
    assert "--kv-offloading-backend" not in since.command


def test_all_processes_of_a_rank_have_one_seed_which_the_user_may_choose() -> None:
    """With seeds of their own no rank has what the scheduler asks for (LMCache issue 1739)."""
    assert variables(launched(keeping("")))["PYTHONHASHSEED"] == "0"
    assert variables(launched(keeping("", env=(("PYTHONHASHSEED", "7"),))))["PYTHONHASHSEED"] == "7"
    native = spec(kv=KVSpec(offload_json='{"size":"64Gi"}'))
    assert "PYTHONHASHSEED" not in variables(launched(native))


@pytest.mark.parametrize("name", ["LMCACHE_LOCAL_DISK", "LMCACHE_MAX_LOCAL_DISK_SIZE"])
def test_words_of_the_user_beside_the_bound_are_refused(name: str) -> None:
    given = ((name, "9"),)
    with pytest.raises(Invalid, match=rf"engine\.env {name} contradicts spec\.kvCache\.offload\.diskGiB") as refused:
        launched(keeping(env=given))
    assert refused.value.reason is Reason.SpecInvalid
    assert variables(launched(keeping("", env=given)))[name] == "9"


@pytest.mark.parametrize("version", ["0.22.1", "0.33.0"])
def test_kv_of_one_adapter_is_not_given_to_another(version: str) -> None:
    """LMCache finds KV by tokens alone; vLLM's own offload knows adapters."""
    adapted = ModelSpec("m", adapters=(("a", "x/a"),))
    with pytest.raises(Invalid, match=r"LMCache beside spec\.model\.adapters is not supported") as refused:
        launched(replace(keeping(""), model=adapted), version=version)
    assert refused.value.reason is Reason.FeatureUnsupported
    assert launched(spec(model=adapted, kv=KVSpec(offload_json='{"size":"64Gi"}')), version=version).command
