"""Every field of a PDSplit reaches the halves or the front that it is about, or is refused by name (F5 to F7).

What a half then does with a field is what any pool does with it (`test_fields`); fields of one side lie over common
ones. Rows are those of pools, but where a split says something else.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest

from tests.render.fields import LLAMA, PAIRS, ROWS, STEERING, Decided, Refused, Rendered, Row, laid_over, leaves_of, put
from tests.render.standing import Both, differing, split
from weft.api import parse_split
from weft.api.schema import structural_schema
from weft.api.split import PDSplitSpec

Json = dict[str, Any]
BASE: Json = {
    "model": {"id": LLAMA},
    "engine": {"name": "VLLM"},
    "placement": {"accelerators": ["H200"]},
    "scaling": {"maxReplicas": 4},
}
HALVES = frozenset({"InferencePool"})
BUDGETS = frozenset({"PodDisruptionBudget"})
ROUTERS = frozenset({"Deployment"})
FRONT = frozenset({"Service", "Deployment", "PodDisruptionBudget"})
SIDES = ("prefill", "decode")
OF_ONE_SIDE = "without the same on both sides they refuse"
NO_STAGES = "no KV moves between pipeline stages"
NATIVE_OFFLOAD = "vLLM turns off its hybrid memory"
NO_ROUTER = {"router": {"type": "None", "apiKeySecretRef": {"name": "keys", "key": "token"}}}

# Where a split or a side of it differs from a pool; every other row of a pool holds for a half.
OTHERS: dict[str, Row] = {
    "kvCache.offload.backend": Refused("LMCache", NATIVE_OFFLOAD, ROWS["kvCache.offload.backend"].beside),
    "kvCache.offload.diskGiB": Refused(
        500, "spec.kvCache.offload in a decode half", ROWS["kvCache.offload.diskGiB"].beside
    ),
    "prefill.kvCache.offload.diskGiB": Rendered(
        500, beside={"engine": {"name": "SGLang"}, "prefill": {"kvCache": {"offload": {"size": "64Gi"}}}}
    ),
    "kvTransfer.connector": Refused("Mooncake", "spec.kvTransfer.connector Mooncake with spec.router.type Managed"),
    "shape.pipelineParallel": Refused(2, NO_STAGES),
    "shape.prefillContextParallel": Refused(
        2, "only the prefill half of a split shares prompts", ROWS["shape.prefillContextParallel"].beside
    ),
    "placement.domain": Refused("Preferred", "placement.domain Preferred with role Prefill"),
    "decode.placement.domain": Refused("Preferred", "spec.decode.placement.domain Preferred with role Decode"),
    "prefill.shape.prefillContextParallel": ROWS["shape.prefillContextParallel"],
    **{
        f"{side}.engine.speculative.{name}": Refused(
            ROWS[f"engine.speculative.{name}"].value, OF_ONE_SIDE, ROWS[f"engine.speculative.{name}"].beside
        )
        for side in SIDES
        for name in ("method", "model", "tokens")
    },
    **{f"{side}.kvCache.precision": Refused("FP8", OF_ONE_SIDE) for side in SIDES},
    "scaling.mode": Rendered("External"),
    "rollout.strategy": Rendered("Recreate"),
    "router.type": Rendered("None", FRONT),
    "router.replicas": Rendered(3, frozenset({"Deployment", "PodDisruptionBudget"})),
    "router.apiKeySecretRef.name": Rendered("other", beside=NO_ROUTER),
    "router.apiKeySecretRef.key": Rendered("other", beside=NO_ROUTER),
    "ratio.min": Decided("500m", "how few prefill replicas a decode replica may have"),
    "ratio.max": Decided(2, "how many it may have"),
    "model.config.configMapRef.name": ROWS["model.config.configMapRef.name"],
    "model.config.configMapRef.key": ROWS["model.config.configMapRef.key"],
}
# Routers stand before one pair of halves: a field that makes another pair makes another front and budget.
OF_THE_PAIR = (
    "model",
    "engine.args",
    "engine.env",
    "engine.speculative",
    "engine.name",
    "engine.version",
    "engine.image",
    "kvCache",
    "kvTransfer.transport",
)
NOT_OF_IT = ("model.precision", "model.config")
FIELDS = tuple(leaves_of(structural_schema(PDSplitSpec)))


def of_a_pool(path: str) -> str:
    """The same field of a pool."""
    side, _, rest = path.partition(".")
    return rest if side in SIDES else path


def row_of(path: str) -> Row:
    found = OTHERS.get(path) or OTHERS.get(of_a_pool(path)) or ROWS.get(of_a_pool(path))
    assert found is not None, f"{path} has no row"
    return found


def specs(path: str) -> tuple[Json, Json]:
    """Without the row's value, and with it; a side gets a whole copy of the list that the field is in."""
    row, own = row_of(path), of_a_pool(path)
    base = laid_over(BASE, {key: value for key, value in row.beside.items() if key != "role"})
    if own == path:
        return base, put(base, path, row.value)
    section, *inner = own.split(".")
    if isinstance(base.get(section, {}).get(inner[0]), list):
        items = put(base, own, row.value)[section][inner[0]]
        return base, put(base, f"{path.partition('.')[0]}.{section}.{inner[0]}", items)
    return base, put(base, path, row.value)


def expected(path: str) -> frozenset[str]:
    """Kinds of objects that differ."""
    row, own = row_of(path), of_a_pool(path)
    if isinstance(row, Decided) and own in OTHERS:
        return frozenset()
    if own.startswith("router."):
        kinds = row.kinds if isinstance(row, Rendered) else frozenset()
        if "apiKeySecretRef" in own:
            return HALVES
        return kinds | HALVES if "gateway" in own else kinds
    pairs = own.startswith(OF_THE_PAIR) and (not own.startswith(NOT_OF_IT) or own == "model.precisions")
    drains = path in {"rollout.drainTimeout", "decode.rollout.drainTimeout"}
    chosen = own == "shape.dataParallelBalancing"  # whether the first pods of replicas, or all
    of_a_front = ROUTERS if pairs or drains or chosen else frozenset()
    return HALVES | of_a_front | (BUDGETS if pairs else frozenset())


def halves(path: str) -> set[str]:
    """Those whose pool differs."""
    side = path.partition(".")[0]
    among = (side,) if side in SIDES else SIDES
    return {f"duo-{each}" for each in among} if HALVES <= expected(path) else set()


@pytest.mark.parametrize("path", [path for path in FIELDS if not isinstance(row_of(path), Refused)])
def test_a_field_changed_alone_changes_its_objects_and_taken_back_is_gone(path: str) -> None:
    base, changed = specs(path)
    world = Both.with_spec(base)
    before = world.standing()
    world.become(changed)
    differ = differing(before, world.standing())
    assert expected(path) == {kind for kind, _ in differ}
    assert halves(path) == {name for kind, name in differ if kind == "InferencePool"} - {"duo"}  # what a picker follows
    assert parse_split(split(base)).spec != parse_split(split(changed)).spec
    world.become(base)
    row = row_of(path)
    assert (before != world.standing()) is (isinstance(row, Rendered) and path == "engine.version")


@pytest.mark.parametrize("path", [path for path in FIELDS if isinstance(row_of(path), Refused)])
def test_a_field_that_cannot_be_served_is_refused_by_name(path: str) -> None:
    """A new split then renders nothing, and an old one comes back as it was."""
    row, (base, changed) = row_of(path), specs(path)
    assert isinstance(row, Refused)
    new = Both.with_spec(changed)
    assert row.words in new.told()
    assert new.standing() == {}
    world = Both.with_spec(base)
    before = world.standing()
    world.become(changed)
    assert row.words in world.told()
    world.become(base)
    assert before == world.standing()


def free_of_history() -> list[str]:
    """Rows of a split or a side of it whose value lies over the plain base, and which steer no choice."""
    rendered = (path for path in FIELDS if isinstance(row_of(path), Rendered) and not row_of(path).beside)
    return [path for path in rendered if not of_a_pool(path).startswith(STEERING)]


@pytest.mark.parametrize(("between", "last"), random.Random(7).sample([*permutations(free_of_history(), 2)], PAIRS))
def test_what_was_there_in_between_leaves_no_trace(between: str, last: str) -> None:
    """F7: A to B to C is A to C."""
    straight, around = Both.with_spec(BASE), Both.with_spec(BASE)
    straight.become(specs(last)[1])
    around.become(specs(between)[1])
    around.become(specs(last)[1])
    assert straight.standing() == around.standing() == Both.with_spec(specs(last)[1]).standing() != {}
