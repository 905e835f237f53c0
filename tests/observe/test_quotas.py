"""ResourceQuotas as records."""

from __future__ import annotations

from typing import Any

import pytest

from weft.domain.quotas import QuotaRecord, QuotaScope
from weft.observe.objects.quotas import read_quota

Json = dict[str, Any]
GPUS = "requests.nvidia.com/gpu"


def quota(status: Json | None = None, **spec: object) -> Json:
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "gpus"},
        "spec": spec,
    }
    return body if status is None else {**body, "status": status}


def test_the_status_is_what_counts_and_only_pods_and_devices_are_kept() -> None:
    hard = {GPUS: "16", "pods": "1k", "requests.cpu": "100", "requests.storage": "1Ti", "count/pods": "50"}
    body = quota({"hard": hard, "used": {GPUS: "9", "pods": "3", "count/pods": "4"}}, hard={GPUS: "99"})
    limits = (("count/pods", 50), ("pods", 1000), (GPUS, 16))
    assert QuotaRecord("team", "gpus", limits, (("count/pods", 4), ("pods", 3), (GPUS, 9))) == read_quota(body)


def test_what_was_not_counted_yet_is_used_up() -> None:
    """The API server admits no pod before the quota's first count."""
    assert QuotaRecord("team", "gpus", ((GPUS, 16),), ((GPUS, 16),)) == read_quota(quota(hard={GPUS: "16"}))


@pytest.mark.parametrize("hard", [{}, {"requests.cpu": "4"}, {"requests.nvidia.com/gpu": "many"}, {"services": "2"}])
def test_one_that_limits_neither_pods_nor_devices_is_left_out(hard: Json) -> None:
    assert read_quota(quota({"hard": hard, "used": {}}, hard=hard)) is None


def test_scopes_are_read_in_both_spellings() -> None:
    of_class = {"scopeName": "PriorityClass", "operator": "In", "values": ["online", "batch"]}
    found = read_quota(quota(hard={GPUS: 8}, scopes=["NotTerminating"], scopeSelector={"matchExpressions": [of_class]}))
    assert found is not None
    assert (QuotaScope("NotTerminating"), QuotaScope("PriorityClass", "In", ("batch", "online"))) == found.scopes
