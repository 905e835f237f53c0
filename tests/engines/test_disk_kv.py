"""KV on disks of nodes: within a size that the engine keeps itself, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.pools import plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, PoolSpec
from weft.domain.texts.units import GIB
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for
from weft.engines.kv.disks import EPHEMERAL, FILLED
from weft.engines.kv.host_memory import pod_needs

ONE_POD = shape(4, engine=EngineName.SGLang)
TWO_PODS = shape(16, gpus_per_pod=8, engine=EngineName.SGLang)


def keeping(disk: str = ',"diskGiB":1000', **engine: Any) -> PoolSpec:  # noqa: ANN401 - fields of EngineSpec
    return spec(kv=KVSpec(offload_json=f'{{"size":"64Gi"{disk}}}'), engine=EngineSpec(**engine))


def launched(wanted: PoolSpec, pods: Any = ONE_POD) -> ContainerLaunch:  # noqa: ANN401 - a shape
    return adapter_for(EngineName.SGLang).launch(LaunchRequest(wanted, plan(pods), leader_host="leader"))


@pytest.mark.parametrize(("pods", "gib", "ranks"), [(ONE_POD, 1000, 4), (TWO_PODS, 500, 8)])
def test_ranks_of_a_pod_keep_less_together_than_its_volume_holds(pods: Any, gib: int, ranks: int) -> None:  # noqa: ANN401 - a shape
    """Past the limit of its volume the kubelet ends the pod."""
    found = launched(keeping(), pods)
    values = {each.name: each.value for each in found.env}
    assert found.disk_bytes == gib * GIB
    assert ranks * int(values["SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"]) <= FILLED * found.disk_bytes
    assert values["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] == "/kv"
    assert "--hicache-storage-backend file" in " ".join(found.command)


def test_nothing_is_on_disks_unless_it_is_asked_for() -> None:
    found = launched(keeping(""))
    assert found.disk_bytes == 0
    assert "--hicache-storage-backend" not in found.command
    assert not any("HICACHE" in each.name for each in found.env)


@pytest.mark.parametrize(
    "given",
    [
        {"args": ("--hicache-storage-backend", "mooncake")},
        {"args": ('--hicache-storage-backend-extra-config={"max_size":"9Ti"}',)},
        {"env": (("SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE", "9Ti"),)},
    ],
)
def test_words_of_the_user_that_would_undo_the_bound_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"HICACHE.*contradicts|hicache.*contradicts") as refused:
        launched(keeping(**given))
    assert refused.value.reason is Reason.SpecInvalid
    assert launched(keeping("", **given)).command


def test_a_node_has_to_have_the_disk() -> None:
    assert dict(pod_needs(keeping(), plan(TWO_PODS)))[EPHEMERAL] == str(500 * GIB)
    assert EPHEMERAL not in dict(pod_needs(keeping(""), plan(TWO_PODS)))
