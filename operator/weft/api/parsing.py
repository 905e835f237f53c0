"""A body as the API server gives it -> a record. Whatever is in the body: an answer, never an exception.

A spec that cannot be understood becomes a record without one and with the problem in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from weft.api.meant import ResourceKind
from weft.api.overrides import leaves, side_body
from weft.api.pool import InferencePoolSpec
from weft.api.problems import explain, misplaced, spec_problem, unknown_override
from weft.api.reading import canonical_json, plain, pool_spec, router_spec
from weft.api.split import PDSplitSpec, SideOverrides
from weft.domain import labels
from weft.domain.errors import WeftError
from weft.domain.labels import GROUP
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
from weft.domain.spec import PoolSpec, SplitSpec
from weft.domain.status import PoolStatus, SplitStatus
from weft.domain.texts.times import known_instant
from weft.domain.texts.units import parse_quantity
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.api.rules import ApiModel, Json
    from weft.domain.status import Condition

Spec = TypeVar("Spec")


def parse_pool(body: Json) -> PoolRecord:
    """One InferencePool. `priority` stays 0: the value of a PriorityClass is in another object."""
    metadata, status = _object(body, "metadata"), _object(body, "status")
    spec, problem = _understood(body, _pool_spec, InferencePoolSpec)
    decided, conditions = _pool_status(status)
    split_uid = _owning_split(metadata)
    if spec is not None and split_uid is not None:
        spec = replace(spec, pair=str(_object(metadata, "labels").get(labels.PAIR, "")))
    return PoolRecord(
        key=_key("InferencePool", metadata),
        generation=_whole(metadata.get("generation")),
        spec=spec,
        status=decided,
        problem=problem,
        deleting=_goes_away(metadata, conditions),
        split_uid=split_uid,
        created=known_instant(metadata.get("creationTimestamp")) or 0.0,
        conditions=conditions,
        decided=_decided(status),
    )


def parse_split(body: Json) -> SplitRecord:
    """One PDSplit, each side merged into a complete pool."""
    metadata, status = _object(body, "metadata"), _object(body, "status")
    spec, problem = _understood(body, _split_spec, PDSplitSpec)
    decided, conditions = _split_status(status)
    return SplitRecord(
        key=_key("PDSplit", metadata),
        generation=_whole(metadata.get("generation")),
        spec=spec,
        status=decided,
        problem=problem,
        deleting=_goes_away(metadata, conditions),
        created=known_instant(metadata.get("creationTimestamp")) or 0.0,
        conditions=conditions,
        decided=_decided(status),
        reached=_told_of(status, "Ready"),
        serving=_whole(status.get("generation")) or None,
    )


def _decided(status: Json) -> int:
    """The generation that deciding told of last: it says of each whether there is a plan."""
    return _told_of(status, "Planned")


def _told_of(status: Json, kind: str) -> int:
    """The generation that a condition is about; 0 where it was never told."""
    listed = status.get("conditions")
    conditions = [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)]
    return next((_whole(each.get("observedGeneration")) for each in conditions if each.get("type") == kind), 0)


def _pool_status(status: Json) -> tuple[PoolStatus, tuple[Condition, ...]]:
    if not status:  # as in every file that somebody writes: the models of a status are not loaded
        return PoolStatus(), ()
    from weft.api.status_reading import read_conditions, read_pool_status  # noqa: PLC0415 - see above

    return read_pool_status(status), read_conditions(status)


def _split_status(status: Json) -> tuple[SplitStatus, tuple[Condition, ...]]:
    if not status:
        return SplitStatus(), ()
    from weft.api.status_reading import read_conditions, read_split_status  # noqa: PLC0415 - as above

    return read_split_status(status), read_conditions(status)


def _goes_away(metadata: Json, conditions: Iterable[Condition]) -> bool:
    """Deleted, or noted to be in a namespace that is: no namespace ever comes back from that."""
    return bool(metadata.get("deletionTimestamp")) or any(
        condition.kind == "Stalled" and condition.explanation.reason is Reason.NamespaceTerminating
        for condition in conditions
    )


class _Misunderstood(Exception):  # noqa: N818 - never leaves this module
    """A spec with the problem in words."""

    def __init__(self, problem: Explanation) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _understood(
    body: object, read: Callable[[Json], Spec], model: type[ApiModel]
) -> tuple[Spec | None, Explanation | None]:
    try:
        return read(_without_nulls(_given_spec(body, model))), None
    except _Misunderstood as misunderstood:
        return None, misunderstood.problem
    except WeftError as error:
        return None, spec_problem(error.message)
    except RecursionError:
        return None, spec_problem("spec: is nested too deep")
    except (ValueError, OverflowError, TypeError) as error:
        # What JSON allows and no field type foresees, such as an integer of 5,000 digits.
        return None, spec_problem(f"spec: a value is out of every range that is allowed ({error})")


def _given_spec(body: object, model: type[ApiModel]) -> Json:
    wrong = misplaced(body, model) if isinstance(body, dict) else None
    given = body.get("spec") if isinstance(body, dict) else None
    if wrong is None and given is not None and not isinstance(given, dict):
        wrong = spec_problem("spec: must be an object, as `spec: {model: {id: ...}}` is")
    if wrong is not None:
        raise _Misunderstood(wrong)
    return given or {}


def _pool_spec(spec: Json) -> PoolSpec:
    try:
        return pool_spec(InferencePoolSpec.model_validate(spec))
    except ValidationError as error:
        raise _Misunderstood(explain(error, InferencePoolSpec, other=ResourceKind("PDSplit", PDSplitSpec))) from None


def _split_spec(spec: Json) -> SplitSpec:
    try:
        read = PDSplitSpec.model_validate(spec)
    except ValidationError as error:
        other = ResourceKind("InferencePool", InferencePoolSpec)
        raise _Misunderstood(explain(error, PDSplitSpec, other=other)) from None
    common = plain(read, without=("prefill", "decode", "ratio"))
    prefill, decode = (_merged_side(common, spec, role) for role in (Role.Prefill, Role.Decode))
    ratio = read.ratio
    prefill_spec = pool_spec(prefill)
    return SplitSpec(
        prefill=prefill_spec,
        decode=pool_spec(decode),
        router=router_spec(read.router),
        prefill_body=_child_body(prefill),
        decode_body=_child_body(decode),
        ratio_min=parse_quantity(ratio.min) if ratio and ratio.min is not None else None,
        ratio_max=parse_quantity(ratio.max) if ratio and ratio.max is not None else None,
        engine=prefill_spec.engine,
        overrides=tuple(
            (role, path)
            for role in (Role.Prefill, Role.Decode)
            for path in sorted(leaves(_object(spec, role.value.lower())))
        ),
    )


def _merged_side(common: Json, split: Json, role: Role) -> InferencePoolSpec:
    name = role.value.lower()
    override = _object(split, name)
    unknown = unknown_override(override, SideOverrides, f"spec.{name}", PDSplitSpec)
    if unknown is not None:
        raise _Misunderstood(unknown)
    try:
        return InferencePoolSpec.model_validate(side_body(common, override, role))
    except ValidationError as error:
        # What is common was validated before, so that the override made it wrong.
        raise _Misunderstood(explain(error, InferencePoolSpec, f"spec.{name}")) from None


def _child_body(side: InferencePoolSpec) -> str:
    """The spec of a child pool without its count, which others own in External mode."""
    body = plain(side)
    body["scaling"].pop("replicas", None)
    return canonical_json(body)


def _without_nulls(value: Any, *, within_config: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """The API server prunes a null of an object; a null in a list stays and is refused. A config.json keeps its own."""
    if isinstance(value, dict) and not within_config:
        kept = ((key, inner) for key, inner in value.items() if inner is not None)
        return {key: _without_nulls(inner, within_config=key == "inline") for key, inner in kept}
    if isinstance(value, list) and not within_config:
        return [_without_nulls(inner) for inner in value]
    return value


def _object(body: object, name: str) -> Json:
    inner = body.get(name) if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _key(kind: str, metadata: Json) -> ResourceKey:
    return ResourceKey(kind, *(_text(metadata.get(name)) for name in ("namespace", "name", "uid")))


def _owning_split(metadata: Json) -> str | None:
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and _is_split(owner) and owner.get("controller") is True:
            return _text(owner.get("uid")) or None
    return None


def _is_split(owner: Json) -> bool:
    return owner.get("kind") == "PDSplit" and _text(owner.get("apiVersion")).startswith(f"{GROUP}/")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
