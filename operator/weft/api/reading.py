"""A validated spec -> the frozen values that everything inside Weft reads. Quantities become plain numbers here."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from weft.domain import hardware, scaling_spec, spec, workload
from weft.domain.shape import EngineName
from weft.domain.texts.times import read_far_instant
from weft.domain.texts.units import parse_duration_seconds, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.api.engine import EngineResources, EngineSection, KVCache, KVTransfer
    from weft.api.fields import SecretKeyRef
    from weft.api.model import Model, Source
    from weft.api.placing import Placement, ShapeSection, TolerationItem
    from weft.api.pool import InferencePoolSpec
    from weft.api.rules import ApiModel, Json
    from weft.api.scaling import Rollout, Scaling
    from weft.api.serving import Gateway, Pod, Router, RouterResources
    from weft.api.traffic import Percentile, SloSection, TokenCount, WorkloadSection


def canonical_json(value: object) -> str:
    """JSON that is equal for equal values; raises `ValueError` for NaN, infinities and integers of absurd length."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(model: ApiModel, without: tuple[str, ...] = ()) -> Json:
    """A model as the JSON that a user would write, without what is unset and without some fields."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(without))


def pool_spec(read: InferencePoolSpec) -> spec.PoolSpec:
    """The whole spec of a pool."""
    return spec.PoolSpec(
        role=read.role,
        model=_model(read.model),
        engine=_engine(read.engine),
        kv=_kv(read.kv_cache, read.kv_transfer),
        workload=_workload(read.workload, read.model.max_model_len),
        slo=_slo(read.slo),
        shape=_pins(read.shape),
        balancing=(read.shape and read.shape.data_parallel_balancing) or spec.Balancing.Internal,
        placement=_placement(read.placement),
        scaling=_scaling(read.scaling),
        rollout=_rollout(read.rollout),
        pod=_pod(read.pod),
        router=router_spec(read.router),
    )


def _model(read: Model) -> spec.ModelSpec:
    config = read.config
    inline = config.inline if config else None
    config_map = config.config_map_ref if config else None
    return spec.ModelSpec(
        model_id=read.id,
        served_names=tuple(read.served_names),
        source=_source(read.source, read.id) if read.source else None,
        config_json=canonical_json(inline) if inline is not None else None,
        config_map=(config_map.name, config_map.key) if config_map else None,
        precision=read.precision,
        precisions=tuple(read.precisions),
        max_context_tokens=read.max_model_len,
        adapters=tuple((adapter.name, adapter.source) for adapter in read.adapters),
        adapter_rank=max((adapter.rank for adapter in read.adapters if adapter.rank), default=None),
    )


def _source(read: Source, model_id: str) -> spec.ModelSource | None:
    kinds = spec.SourceKind
    if (hub := read.hugging_face) is not None:
        location, token = hub.repository or model_id, _key_of(hub.token_secret_ref)
        return spec.ModelSource(
            kinds.HuggingFace,
            location,
            revision=hub.revision,
            token_secret=token,
            cache=hub.cache_claim_name,
            warm_up=hub.warm_up,
        )
    if (pvc := read.pvc) is not None:
        return spec.ModelSource(kinds.PVC, pvc.claim_name, pvc.path)
    if (image := read.image) is not None:
        return spec.ModelSource(kinds.Image, image.reference, pull_policy=image.pull_policy)
    if (store := read.uri) is not None:
        return spec.ModelSource(kinds.URI, store.uri, secret=store.secret_ref.name if store.secret_ref else None)
    return None


def _engine(read: EngineSection) -> spec.EngineSpec:
    wished = read.resources.shared_memory if read.resources else None
    return spec.EngineSpec(
        name=None if read.name == "Auto" else EngineName(read.name),
        version=read.version,
        image=read.image,
        args=tuple(read.args),
        env=tuple((variable.name, variable.value) for variable in read.env),
        resources=_resources(read.resources),
        shared_memory=None if wished is None else str(wished),
        speculative_json=canonical_json(plain(read.speculative)) if read.speculative else None,
        distributed=read.distributed,
    )


def _resources(read: EngineResources | RouterResources | None) -> spec.Pairs:
    if read is None:
        return ()
    wished = {"cpu": read.cpu, "memory": read.memory}
    pairs = [(name, str(amount)) for name, amount in wished.items() if amount is not None]
    pages = (("2Mi", 2, "Mi", "huge_pages_2mi"), ("1Gi", 1, "Gi", "huge_pages_1gi"))
    for size, each, unit, field in pages:
        if count := getattr(read, field, None):
            pairs.append((f"{spec.HUGE_PAGES}{size}", f"{each * count}{unit}"))
    rdma = getattr(read, "rdma", None)
    return (*pairs, *([(rdma.resource, str(rdma.count))] if rdma else ()))


def _kv(cache: KVCache | None, transfer: KVTransfer | None) -> spec.KVSpec:
    precision = cache.precision if cache else None
    offload = cache.offload if cache else None
    kept = spec.KVSpec(
        precision=hardware.Precision(precision) if precision else None,
        offload_json=canonical_json(plain(offload)) if offload else None,
    )
    if transfer is None:
        return kept
    return spec.KVSpec(kept.precision, kept.offload_json, transfer.connector, transfer.transport, transfer.locality)


def _workload(read: WorkloadSection, longest: int | None) -> workload.Workload:
    return workload.Workload(
        requests_per_second=parse_quantity(read.requests_per_second),
        input_tokens=float(read.input_tokens.mean),
        output_tokens=float(read.output_tokens.mean),
        input_tokens_p95=_p95(read.input_tokens),
        output_tokens_p95=_p95(read.output_tokens),
        prefix_hit=read.prefix_hit_percent / 100,
        squared_arrival_variation=(read.arrival_variation_percent / 100) ** 2,
        longest_tokens=math.inf if longest is None else float(longest),
        input_p95_declared=read.input_tokens.p95 is not None,
        output_p95_declared=read.output_tokens.p95 is not None,
    )


def _p95(tokens: TokenCount) -> float:
    return float(tokens.p95 if tokens.p95 is not None else workload.P95_OF_MEAN * tokens.mean)


def _slo(read: SloSection | None) -> workload.Slo:
    return workload.Slo(_targets(read.ttft), _targets(read.tpot)) if read else workload.Slo()


def _targets(read: Mapping[Percentile, str]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted((int(key[1:]), parse_duration_seconds(value)) for key, value in read.items()))


def _pins(read: ShapeSection | None) -> spec.ShapePins:
    if read is None:
        return spec.ShapePins()
    return spec.ShapePins(
        tensor_parallel=read.tensor_parallel,
        pipeline_parallel=read.pipeline_parallel,
        expert_parallel=read.expert_parallel,
        data_parallel=read.data_parallel,
        decode_context_parallel=read.decode_context_parallel,
        prefill_context_parallel=read.prefill_context_parallel,
    )


def _placement(read: Placement) -> spec.PlacementSpec:
    return spec.PlacementSpec(
        accelerators=tuple(read.accelerators),
        node_selector=_pairs(read.node_selector),
        tolerations=tuple(_toleration(toleration) for toleration in read.tolerations),
        domain=read.domain,
        spread=read.spread,
        spare_nodes_per_domain=read.spare_nodes_per_domain,
        scheduler=spec.SchedulerName(read.scheduler.name),
        queue=read.scheduler.queue or "",
    )


def _toleration(read: TolerationItem) -> spec.Toleration:
    return spec.Toleration(read.key or "", read.operator, read.value or "", read.effect or "", read.toleration_seconds)


def _scaling(read: Scaling) -> scaling_spec.ScalingSpec:
    return scaling_spec.ScalingSpec(
        mode=read.mode,
        replicas=read.replicas,
        min_replicas=read.min_replicas,
        max_replicas=read.max_replicas,
        max_gpus=read.max_gpus,
        max_step=read.max_step,
        freeze_until=read_far_instant(read.freeze_until) if read.freeze_until else None,
        scale_down_delay_seconds=parse_duration_seconds(read.scale_down_delay),
        headroom=read.headroom_percent / 100,
        risk=read.risk_percent / 100,
    )


def _rollout(read: Rollout) -> spec.RolloutSpec:
    return spec.RolloutSpec(
        strategy=read.strategy,
        max_surge=_limit(read.max_surge),
        max_unavailable=_limit(read.max_unavailable),
        min_ready_seconds=float(read.min_ready_seconds),
        paused=read.paused,
        drain_timeout_seconds=parse_duration_seconds(read.drain_timeout),
        start_timeout_seconds=None if read.start_timeout is None else parse_duration_seconds(read.start_timeout),
    )


def _limit(value: int | str) -> int | float:
    return value if isinstance(value, int) else int(value.removesuffix("%")) / 100


def _pod(read: Pod | None) -> spec.PodSpec:
    if read is None:
        return spec.PodSpec()
    return spec.PodSpec(
        labels=_pairs(read.labels),
        annotations=_pairs(read.annotations),
        service_account=read.service_account_name,
        image_pull_secrets=tuple(secret.name for secret in read.image_pull_secrets),
        runtime_class=read.runtime_class_name,
        priority_class=read.priority_class_name,
        groups=tuple(read.supplemental_groups),
        relaxations=tuple(read.relaxations),
    )


def router_spec(read: Router) -> spec.RouterSpec:
    """The front of a pool or of a split."""
    return spec.RouterSpec(
        kind=read.type,
        replicas=read.replicas,
        image=read.image,
        resources=_resources(read.resources),
        api_key_secret=_key_of(read.api_key_secret_ref),
        gateway=_gateway(read.gateway) if read.gateway is not None else None,
    )


def _gateway(read: Gateway) -> spec.GatewaySpec:
    parents = (
        spec.GatewayParent(each.group, each.kind, each.name, each.namespace, each.section_name, each.port)
        for each in read.parent_refs
    )
    picker = read.endpoint_picker_ref
    return spec.GatewaySpec(tuple(parents), picker.name, picker.port, tuple(read.hostnames))


def _key_of(reference: SecretKeyRef | None) -> tuple[str, str] | None:
    return (reference.name, reference.key) if reference else None


def _pairs(read: Mapping[str, str]) -> spec.Pairs:
    return tuple(sorted(read.items()))
