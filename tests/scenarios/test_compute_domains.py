"""A ComputeDomain for each replica over several trays, on the real API server and the real scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.waiting import eventually
from tests.scenarios.nvlink import CLAIMS, TEMPLATES, Driver
from tests.scenarios.tenants import engines

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]


def names(bodies: list[Json]) -> list[str]:
    return sorted(body["metadata"]["name"] for body in bodies)


def replicas(driver: Driver, pool: str) -> dict[str, set[str]]:
    """Nodes by the name of the ComputeDomain that a pool's pods claim."""
    found: dict[str, set[str]] = {}
    for pod in engines(driver.place, pool):
        (claim,) = pod["spec"]["resourceClaims"]
        found.setdefault(claim["resourceClaimTemplateName"], set()).add(pod["spec"]["nodeName"])
    return found


def test_every_replica_has_its_own_from_its_first_pod_to_its_last(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """The scheduler gives each pod a channel of its node; two replicas are on nodes of their own."""
    driver = Driver(weft, "nvlink", trays=4)
    driver.create_pool("chat", replicas=2)
    eventually(lambda: driver.serves("chat", 2), "both replicas serve", timeout_seconds=60)

    homes = replicas(driver, "chat")
    assert sorted(homes) == names(driver.domains())
    assert set(driver.nodes) == set().union(*homes.values())
    assert [2, 2] == [len(nodes) for nodes in homes.values()]
    eventually(lambda: homes == driver.step().labelled(), "its nodes are labelled")
    claims = driver.place.objects(CLAIMS)
    assert 4 == len(claims)
    assert all(claim["status"]["allocation"] for claim in claims)
    assert {tuple(each["computeDomain"]["cliques"]) for each in driver.place.status("chat")["assignments"]} == {
        (driver.clique,)
    }

    driver.place.change_pool("chat", {"spec": {"scaling": {"replicas": 1}}})
    eventually(lambda: driver.serves("chat", 1), "one is gone", timeout_seconds=60)
    assert sorted(replicas(driver, "chat")) == names(driver.domains())

    driver.place.delete_pool("chat")
    eventually(lambda: not left(driver.step()), "nothing is left", timeout_seconds=60)
    assert {} == driver.labelled()


def test_a_replica_ends_with_its_domain_and_comes_back_with_another(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """Claims of its pods fit no other. Whoever deletes one this early is waited for, as with pods."""
    driver = Driver(weft, "undone", trays=2)
    driver.create_pool("chat", replicas=1)
    eventually(lambda: driver.serves("chat", 1), "it serves", timeout_seconds=60)
    (before,) = driver.domains()
    driver.delete(before)
    eventually(lambda: reason(driver) == "ComputeDomainDeleted", "it is told")
    eventually(lambda: driver.serves("chat", 1), "another serves", timeout_seconds=60)
    (after,) = driver.domains()
    assert before["metadata"]["name"] != after["metadata"]["name"]
    assert [after["metadata"]["name"]] == list(replicas(driver, "chat"))


def reason(driver: Driver) -> str | None:
    failure = driver.place.status("chat").get("failure") or {}
    return failure.get("reason")


def left(driver: Driver) -> list[str]:
    claims = [name for path in (CLAIMS, TEMPLATES) for name in names(driver.place.objects(path))]
    return [*names(driver.domains()), *claims]
