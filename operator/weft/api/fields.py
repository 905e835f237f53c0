"""Field types of the API: what Kubernetes users write, with limits that the API server checks and we check again."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeGuard, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema
from pydantic.config import JsonDict, JsonValue

from weft.api.patterns import DNS_SUBDOMAIN, KEY_NAME, LABEL_KEY, LABEL_VALUE, NO_SPACE
from weft.api.rules import VALIDATIONS, ApiModel, Json, refusal
from weft.domain import hardware, scaling_spec, spec, workload
from weft.domain.errors import Invalid
from weft.domain.scaling_spec import MOST_REPLICAS
from weft.domain.texts.times import read_far_instant
from weft.domain.texts.units import DURATION_PATTERN, parse_duration_seconds, parse_quantity

Item = TypeVar("Item")

LIST_TYPE = "x-kubernetes-list-type"
SET: JsonDict = {LIST_TYPE: "set"}
ATOMIC: JsonDict = {LIST_TYPE: "atomic"}
BY_NAME: JsonDict = {LIST_TYPE: "map", "x-kubernetes-list-map-keys": ["name"]}
ATOMIC_MAP: JsonDict = {"x-kubernetes-map-type": "atomic"}

MAX_MESSAGE_CHARACTERS = 4096
MAX_TOKENS = 100_000_000
MAX_REQUESTS_PER_SECOND = 1_000_000
LONGEST_LABEL_KEY = 255  # Kubernetes takes 253 characters before the /, which no pattern counts, and one behind it


_QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$"
_QUANTITY_REFUSED = "must be a quantity above zero such as 8, 500m or 64Gi"
_NUMBER_REFUSED = "must be a quantity above zero such as 8 or 500m"
_RATE_REFUSED = f"must be at most {MAX_REQUESTS_PER_SECOND} requests per second"
_DURATION_REFUSED = "must be a duration above zero such as 300ms, 90s or 1h30m"
_LIMIT_REFUSED = "must be a count of replicas such as 1, or a percentage such as 25%"
_INT_OR_STRING: Json = {"x-kubernetes-int-or-string": True}


def section(model: type[ApiModel], description: str) -> Any:  # noqa: ANN401 - what stands for a default has any type
    """A field that is an object with defaults of its own: absent means all of them, visibly."""
    return Field(default_factory=model, description=description, json_schema_extra={"default": {}})


def described(description: str, **extra: JsonValue) -> Any:  # noqa: ANN401 - what stands for a default has any type
    """An optional field without a default."""
    return Field(default=None, description=description, json_schema_extra=extra or None)


def _above_zero(value: object) -> str:
    if not isinstance(value, str):
        raise refusal(_DURATION_REFUSED)
    try:
        parse_duration_seconds(value)
    except Invalid:
        raise refusal(_DURATION_REFUSED) from None
    return value


def _positive(value: object, refused: str) -> int | str:
    if isinstance(value, float) and 0 < value < math.inf:  # Kubernetes takes none, and YAML reads 0.5 as one
        raise refusal(f"{refused} (with a decimal point in quotes, as '{value:g}')")
    if not _is_int_or_string(value):
        raise refusal(refused)
    try:
        number = parse_quantity(value)
    except (Invalid, ValueError, OverflowError):
        raise refusal(refused) from None
    if not 0 < number < math.inf:
        raise refusal(refused)
    return value


def _positive_quantity(value: object) -> int | str:
    return _positive(value, _QUANTITY_REFUSED)


def _positive_number(value: object) -> int | str:
    return _positive(value, _NUMBER_REFUSED)


def _rate(value: object) -> int | str:
    rate = _positive_number(value)
    if parse_quantity(rate) > MAX_REQUESTS_PER_SECOND:
        raise refusal(_RATE_REFUSED)
    return rate


def _int_or_percent(value: object) -> int | str:
    if not _is_int_or_string(value):
        raise refusal(_LIMIT_REFUSED)
    number = value if isinstance(value, int) else _percent(value)
    if number is None or not 0 <= number <= MOST_REPLICAS:
        raise refusal(_LIMIT_REFUSED)
    return value


def _is_int_or_string(value: object) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _percent(text: str) -> int | None:
    digits = text.removesuffix("%")
    return int(digits) if text.endswith("%") and digits.isascii() and digits.isdigit() and len(digits) <= 3 else None  # noqa: PLR2004 - as the pattern


def _instant(text: str) -> str:
    try:
        read_far_instant(text)
    except ValueError:
        raise refusal("must be a time with its zone such as 2026-07-01T08:00:00Z") from None
    return text


def _each_once(items: list[Item]) -> list[Item]:
    """A set, or a list keyed by name: the API server refuses duplicates."""
    keys = [getattr(item, "name", item) for item in items]
    if len(set(keys)) < len(keys):
        raise refusal("each entry must be there once")
    return items


def counted_from_one(what: str) -> JsonDict:
    """The rule of a replica count: zero has a refusal of its own."""
    return {VALIDATIONS: [{"rule": "self >= 1", "message": zero_refused(what)}]}


def zero_refused(what: str) -> str:
    """The sentence for a count of zero or less."""
    return f"{what} must be at least 1: zero is not supported yet"


EACH_ONCE = AfterValidator(_each_once)
Duration = Annotated[
    str,
    PlainValidator(_above_zero),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 32,
            "pattern": DURATION_PATTERN,
            VALIDATIONS: [
                {
                    "rule": f"self.matches('{DURATION_PATTERN}') && duration(self) > duration('0s')",
                    "message": _DURATION_REFUSED,
                }
            ],
        }
    ),
]
_POSITIVE: Json = {
    "rule": "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
    "message": _QUANTITY_REFUSED,
}
_NOT_ABSURD: Json = {
    "rule": "!isQuantity(string(self)) || "
    f"!quantity(string(self)).isGreaterThan(quantity('{MAX_REQUESTS_PER_SECOND}'))",
    "message": _RATE_REFUSED,
}
_QUANTITY_SCHEMA: Json = {**_INT_OR_STRING, "maxLength": 32, "pattern": _QUANTITY_PATTERN, VALIDATIONS: [_POSITIVE]}
Quantity = Annotated[int | str, PlainValidator(_positive_quantity), WithJsonSchema(_QUANTITY_SCHEMA)]
_NUMBER: Json = {**_POSITIVE, "message": _NUMBER_REFUSED}
Number = Annotated[
    int | str, PlainValidator(_positive_number), WithJsonSchema({**_QUANTITY_SCHEMA, VALIDATIONS: [_NUMBER]})
]
RequestsPerSecond = Annotated[
    int | str, PlainValidator(_rate), WithJsonSchema({**_QUANTITY_SCHEMA, VALIDATIONS: [_NUMBER, _NOT_ABSURD]})
]
IntOrPercent = Annotated[
    int | str,
    PlainValidator(_int_or_percent),
    WithJsonSchema(
        {
            **_INT_OR_STRING,
            "maxLength": 8,
            "pattern": r"^[0-9]{1,3}%$",
            VALIDATIONS: [
                {
                    "rule": "type(self) == int ? (self >= 0 && self <= 1000) : self.matches('^[0-9]{1,3}%$')",
                    "message": _LIMIT_REFUSED,
                }
            ],
        }
    ),
]
Instant = Annotated[
    str, AfterValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64})
]

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
KeyName = Annotated[str, Field(min_length=1, max_length=253, pattern=KEY_NAME)]
LabelKey = Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL_KEY, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
ImageReference = Annotated[str, Field(min_length=1, max_length=512, pattern=NO_SPACE)]

# Enums of the vocabulary: JSON brings their text, so these alone are not strict.
Precision = Annotated[hardware.Precision, Strict(strict=False)]
Role = Annotated[workload.Role, Strict(strict=False)]
Balancing = Annotated[spec.Balancing, Strict(strict=False)]
DomainRule = Annotated[spec.DomainRule, Strict(strict=False)]
ScalingMode = Annotated[scaling_spec.ScalingMode, Strict(strict=False)]
RolloutStrategy = Annotated[spec.RolloutStrategy, Strict(strict=False)]
RouterKind = Annotated[spec.RouterKind, Strict(strict=False)]


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret, in this namespace.")
    key: KeyName = Field(description="Key inside the Secret.")


class LocalRef(ApiModel):
    """An object in the same namespace."""

    name: ObjectName = Field(description="Name of the object, in this namespace.")


def immutable(message: str) -> JsonDict:
    """The rule of a field that never changes."""
    return {VALIDATIONS: [{"rule": "self == oldSelf", "message": message}]}
