"""Which releases of its engine a recorded pool may be planned with: what planning claims of versions, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.catalog.limits import Releases
from weft.catalog.options import engine_options
from weft.domain.shape import EngineName
from weft.domain.spec import Balancing, SourceKind
from weft.engines import adapter_for
from weft.engines.kv.disks import disk_bytes
from weft.engines.kv.libfabric import over_efa
from weft.engines.kv.nvlink import over_nvlink
from weft.engines.model.speculative import speculative_wish
from weft.engines.sglang.context_parallelism import SHARES_CONTEXTS
from weft.engines.terms.versions import parse_version
from weft.engines.vllm.balancing import SERVES_AT_SEVERAL_PORTS
from weft.engines.vllm.connectors import BRINGS_MOONCAKE, OFFLOADS_BESIDE
from weft.engines.vllm.context_parallelism import SHARES_LATENT_KV, SHARES_PROMPTS

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec


def _releases(table: str) -> tuple[str, ...]:
    return tuple(".".join(map(str, release)) for release in engine_options(table).releases)


RELEASES = {
    EngineName.VLLM: _releases("vllm_options.yaml"),
    EngineName.SGLang: _releases("sglang_options.yaml"),
    # Its table has a line for each of 1.2 and 1.3, whose candidates differ in what they name and tell
    EngineName.TensorRTLLM: ("1.2.1", "1.3.0rc5", "1.3.0rc6", "1.3.0rc12", "1.3.0rc14"),
}


def is_planned(record: PoolRecord, version: str) -> bool:
    """Whether planning lets a release have the pool's shape and wishes."""
    plan, spec = record.status.plan, record.spec
    assert plan is not None
    assert spec is not None
    asked = {EngineName.VLLM: _on_vllm, EngineName.SGLang: _on_sglang}.get(plan.engine.name)
    return asked is None or asked(spec, plan.shape, version)


def _on_vllm(spec: PoolSpec, chosen: Shape, version: str) -> bool:
    release = parse_version(version)
    over_pods = chosen.pods > 1 and chosen.data_parallel == 1
    limits = load().engine(EngineName.VLLM).limits
    able, wish, source = limits.group_over_pods, speculative_wish(spec.engine.speculative_json), spec.model.source
    scheme = source.location.partition("://")[0] if source is not None and source.kind is SourceKind.URI else "s3"
    return (
        (not over_pods or able.include(version))
        and (wish is None or limits.drafting_by(wish.method).include(version))
        and dict(limits.streams)[scheme].include(version)
        and (not over_nvlink(spec) or (limits.nvlink is not None and limits.nvlink.include(version)))
        and not adapter_for(EngineName.VLLM).unknown_arguments(spec.engine.args, version)
        and (chosen.decode_context_parallel == 1 or release >= SHARES_LATENT_KV)
        and (chosen.prefill_context_parallel == 1 or release >= SHARES_PROMPTS)
        and (spec.kv.offload_json is None or _offloads(spec, version))
        and (not disk_bytes(spec, chosen) or (limits.kv_disk is not None and limits.kv_disk.include(version)))
        and (not over_efa(spec) or (limits.efa is not None and limits.efa.include(version)))
        and (spec.kv.connector == "NIXL" or release >= BRINGS_MOONCAKE)
        and (spec.balancing is not Balancing.MultiPort or release >= SERVES_AT_SEVERAL_PORTS)
    )


def _offloads(spec: PoolSpec, version: str) -> bool:
    """A half keeps KV beside its connector, a pool on its own."""
    if spec.role.is_half:
        return parse_version(version) >= OFFLOADS_BESIDE[spec.kv.connector]
    return load().engine(EngineName.VLLM).limits.kv_offload.include(version)


def _on_sglang(spec: PoolSpec, chosen: Shape, version: str) -> bool:
    limits = load().engine(EngineName.SGLang).limits
    needs = (
        (disk_bytes(spec, chosen) > 0, limits.kv_disk),
        (spec.kv.offload_json is not None, limits.kv_offload),
        (over_efa(spec), limits.efa),
        (chosen.decode_context_parallel > 1, Releases(".".join(map(str, SHARES_CONTEXTS)))),
    )
    return all(not wanted or (able is not None and able.include(version)) for wanted, able in needs)
