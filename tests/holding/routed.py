"""A pool behind managed routers around a simulated cluster: Deployments that roll, and routers that watch pods.

Routers are as their sources have them: ready with one replica that they can speak to and not before, blind to what
another engine serves; and `vllm-router` sees nothing any more once it waits for a pod that it cannot speak to.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Self

from tests.holding.cluster import Cluster, node_body, stamp
from tests.holding.operation import TEAM, Json, Operation, pool_body
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POOL = "chat"
PORTS = {"vllm": 8000, "tensorrtllm": 8000, "sglang": 30000}
ROUTERS = "routers"  # the node that has them, and ends a pod only when its streams are over
GRACE_SECONDS = 305.0
AT_A_TIME = 0.25  # of its pods that a Deployment adds, or takes away, before others are there


def routed_pool(replicas: int, engine: str = "VLLM", **more: Any) -> Json:  # noqa: ANN401 - any field
    """An InferencePool `chat` of replicas of one GPU behind two routers."""
    router = {"type": "Managed", "replicas": 2}
    return pool_body(POOL, "H200", 1, replicas, **{"engine": {"name": engine}, "router": router, **more})


@dataclass
class Routed(Operation):
    """One pool. What is looked at after every write is `look`; routers that end take `ending_turns` for their streams.

    `stuck` are Deployments whose new pods never get ready.
    """

    look: Callable[[Routed], None] = lambda _: None
    ending_turns: int = 2
    going: Counter[str] = field(default_factory=Counter)  # turns that a router has been terminating
    seen: dict[str, set[str]] = field(default_factory=dict)  # engine pods that a router knows
    asked: set[str] = field(default_factory=set)  # routers that got requests
    stuck: set[str] = field(default_factory=set)
    born: int = 0

    @classmethod
    def settled(cls, nodes: list[Json], pool: Json) -> Self:
        """A pool that serves as it was declared."""
        every = {node["metadata"]["name"]: node for node in (*nodes, node_body(ROUTERS, "NVIDIA-H200", 8))}
        world = cls(Cluster(every), {POOL: pool})
        world.cluster.cordon(ROUTERS)
        world.cluster.wedged.add(ROUTERS)
        world.turn(12)
        assert len(world.serving_now()) == pool["spec"]["scaling"]["replicas"], world.describe()
        assert len(world.endpoints()) == 2, world.describe()
        return world

    def choose(self, engine: str) -> None:
        """The user wants another engine."""
        self.edit(POOL, engine={"name": engine})

    def roll(self, most_turns: int = 100) -> None:
        """Until nobody writes any more and no router ends."""
        quiet = 0
        for _ in range(most_turns):
            before = self.writes
            self.turn()
            quiet = quiet + 1 if self.writes == before and not (self.going or self.tries) else 0
            if quiet > self.ending_turns:
                return
        raise AssertionError(self.describe())

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        for _ in range(turns):
            self.cluster.now += seconds
            self.decide()
            self.converge(POOL)
            self.go_on()
            self._see()
            self._looked()

    def go_on(self) -> None:
        self.route()
        super().go_on()

    def _count(self) -> None:
        self._looked()
        super()._count()

    def _looked(self) -> None:
        self.asked.update(self.endpoints())
        self.look(self)

    # what the Deployment controller, kubelets and routers do

    def route(self) -> None:
        """Everybody once: pods of Deployments come, routers look at pods, and those that are not wanted go."""
        found = {each.name: each.body for each in self.cluster.objects_of(TEAM) if each.kind == "Deployment"}
        for name, body in found.items():
            self._grow(name, body["spec"])
        self._see()
        self._probe()
        for name, body in found.items():
            self._shrink(name, body["spec"])
            ready = sum(is_ready(self.cluster.pods[each]) for each in self._pods_of(name))
            self.cluster.object("Deployment", name)["status"] = {"readyReplicas": ready}
        for gone in {deployment_of(name) for name in self.routers()} - found.keys():
            self._let_go(self._pods_of(gone))
        for name in list(self.going):
            self.going[name] += 1
            self.cluster.revision += 1
            if self.going[name] > self.ending_turns:
                del self.cluster.pods[name], self.going[name], self.seen[name]

    def _grow(self, deployment: str, spec: Json) -> None:
        there = self._pods_of(deployment)
        current = [name for name in there if self.cluster.pods[name]["template"] == spec["template"]]
        most = spec["replicas"] + (ceil(spec["replicas"] * AT_A_TIME) if len(current) < len(there) else 0)
        for _ in range(min(spec["replicas"] - len(current), most - len(there))):
            self.born += 1
            name = f"{deployment}-{self.born}"
            self.cluster.pods[name] = router_pod(name, spec["template"])
            self.seen[name] = set()
            self.cluster.revision += 1

    def _shrink(self, deployment: str, spec: Json) -> None:
        """Pods of an earlier template go as far as enough are ready, and those that are too many."""
        there = self._pods_of(deployment)
        old = [name for name in there if self.cluster.pods[name]["template"] != spec["template"]]
        ready = sum(is_ready(self.cluster.pods[name]) for name in there)
        spare = ready - (spec["replicas"] - int(spec["replicas"] * AT_A_TIME))
        outgoing = [name for name in old if not is_ready(self.cluster.pods[name])]
        outgoing += [name for name in old if is_ready(self.cluster.pods[name])][: max(0, spare)]
        current = [name for name in there if name not in old]
        self._let_go([*outgoing, *current[spec["replicas"] :]])

    def _let_go(self, routers: list[str]) -> None:
        for name in routers:
            self.going[name] = 0
            self.cluster.pods[name]["metadata"]["deletionTimestamp"] = stamp(self.cluster.now + GRACE_SECONDS)

    def _see(self) -> None:
        """Each router looks at the pods of its selector, unless it waits for one that never answers."""
        for name in self.routers():
            pod = self.cluster.pods[name]
            chosen = set(self._chosen(pod))
            if not (program(pod) == "vllm-router" and chosen - self.reached(pod)):
                self.seen[name] = chosen

    def _probe(self) -> None:
        """Those are ready that know somebody who answers."""
        for name in self.routers():
            pod = self.cluster.pods[name]
            ready = bool(self.behind(name)) and deployment_of(name) not in self.stuck
            if ready is not is_ready(pod):
                pod["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
                self.cluster.revision += 1

    # looking

    def routers(self) -> list[str]:
        """Every pod of a router."""
        return [name for name, pod in self.cluster.pods.items() if labels.FRONT_OF in pod["metadata"]["labels"]]

    def _pods_of(self, deployment: str) -> list[str]:
        return [name for name in self.routers() if deployment_of(name) == deployment and name not in self.going]

    def endpoints(self) -> list[str]:
        """Routers that get new requests: the Service chooses them, they are ready, and nobody ends them."""
        if not self.cluster.objects_of(TEAM):
            return []
        chosen = self.cluster.object("Service", POOL)["spec"]["selector"].items()
        pods = ((name, self.cluster.pods[name]) for name in self.routers() if name not in self.going)
        return [name for name, pod in pods if is_ready(pod) and chosen <= pod["metadata"]["labels"].items()]

    def deployments(self) -> dict[str, int]:
        """Routers that each front shall have."""
        found = (each for each in self.cluster.objects_of(TEAM) if each.kind == "Deployment")
        return {each.name: each.body["spec"]["replicas"] for each in found}

    def behind(self, router: str) -> set[str]:
        """Engine pods that take what a router sends."""
        return self.seen[router] & self.reached(self.cluster.pods[router])

    def reached(self, router: Json) -> set[str]:
        """Engine pods that a router chooses and can speak to."""
        return {name for name in self._chosen(router) if PORTS[self.engine(name)] == port_of(router)}

    def _chosen(self, router: Json) -> Iterator[str]:
        wanted = selector_of(router)
        for name in self.serving_now():
            if wanted.items() <= self.cluster.pods[name]["metadata"]["labels"].items():
                yield name

    def serving_now(self, engine: str = "") -> list[str]:
        """Engine pods that are ready and carry the label that routers look for."""
        found = []
        for pod in self.pods_of(POOL):
            tags, name = pod["metadata"]["labels"], pod["metadata"]["name"]
            routed = tags.get(labels.ROUTED) == "true" and labels.REPLICA in tags
            if routed and self.cluster.serves(pod) and engine in {"", tags[labels.ENGINE_NAME]}:
                found.append(name)
        return found

    def engine(self, name: str) -> str:
        """What a pod runs."""
        return str(self.cluster.pods[name]["metadata"]["labels"][labels.ENGINE_NAME])

    def within_reach(self) -> set[str]:
        """Engine pods to which requests find a way."""
        return {name for router in self.endpoints() for name in self.behind(router)}


def deployment_of(router: str) -> str:
    """Of which Deployment a router is."""
    return router.rpartition("-")[0]


def is_ready(pod: Json) -> bool:
    """Whether its kubelet says so."""
    return any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"]["conditions"])


def program(router: Json) -> str:
    """What a router runs."""
    return str(_command(router)[0])


def port_of(router: Json) -> int:
    """Where a router asks engines."""
    command = _command(router)
    return int(command[command.index("--service-discovery-port") + 1])


def selector_of(router: Json) -> dict[str, str]:
    """Labels of pods that a router chooses."""
    command = _command(router)
    return dict(word.split("=", 1) for word in command[command.index("--selector") + 1 :])


def _command(router: Json) -> list[str]:
    found: list[str] = router["spec"]["containers"][0]["command"]
    return found


def router_pod(name: str, template: Json) -> Json:
    """As its Deployment makes it; `template` is what the hash in its name stands for."""
    template = copy.deepcopy(template)
    tags = dict(template["metadata"]["labels"])
    meta = {"name": name, "namespace": TEAM, "uid": f"uid-{name}", "labels": tags}
    spec = {"containers": template["spec"]["containers"], "nodeName": ROUTERS}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "conditions": []}, "template": template}
