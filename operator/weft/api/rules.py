"""The base of all API models, and rules stated once for the API server (CEL) and for ourselves (Python)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError

VALIDATIONS = "x-kubernetes-validations"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A claim about one object. `cel` must hold for overrides too, so it asks `has()` before it reads a field."""

    cel: str
    message: str
    holds: Callable[[Any], bool]

    def validation(self) -> Json:
        """The entry of `x-kubernetes-validations`."""
        return {"rule": self.cel, "message": self.message}


def refusal(message: str) -> PydanticCustomError:
    """An error whose text is ours; braces are doubled because pydantic formats the template."""
    return PydanticCustomError("refused", message.replace("{", "{{").replace("}", "}}"))


class ApiModel(BaseModel):
    """An object of the API: unknown fields are refused, nothing is coerced, names are camelCase."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, allow_inf_nan=False, defer_build=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obeys_its_rules(self) -> Self:
        broken = next((rule for rule in self.rules if not rule.holds(self)), None)
        if broken is not None:
            raise refusal(broken.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> Json:
        """The schema of this object with its rules."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema[VALIDATIONS] = [rule.validation() for rule in cls.rules]
        return schema


def exactly_one_of(what: str, *aliases: str) -> Rule:
    """The rule of a union: one of these fields is set, and no other."""
    present = ", ".join(f"has(self.{alias})" for alias in aliases)
    return Rule(
        cel=f"[{present}].filter(x, x).size() == 1",
        message=f"exactly one of {', '.join(aliases)} must be set in {what}",
        holds=lambda value: len(value.model_dump(by_alias=True, exclude_none=True)) == 1,
    )
