"""Kubernetes objects become slim records: what is kept, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest

from weft.domain import labels
from weft.domain.cluster import ContainerFailure, PodIdentity, PodPhase, Taint
from weft.domain.texts.times import known_instant
from weft.observe.objects.pod_words import scheduler_words
from weft.observe.objects.records import read_node, read_object, read_pod

Json = dict[str, Any]

POOL_UID = "uid-of-pool"


def pod(status: Json | None = None, spec: Json | None = None, **metadata: object) -> Json:
    """A pod of ours with one GPU."""
    return {
        "metadata": {
            "namespace": "team",
            "name": "chat-12345-7-0",
            "uid": "uid-of-pod",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                labels.POOL_UID: POOL_UID,
                labels.REPLICA: "7",
                labels.RANK: "0",
                labels.REVISION: "abc",
                labels.ROUTED: "true",
            },
            "ownerReferences": [{"apiVersion": labels.API_VERSION, "uid": POOL_UID, "controller": True}],
            **metadata,
        },
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}}}], **(spec or {})},
        "status": status or {"phase": "Pending"},
    }


def terminated(**state: object) -> Json:
    return {"phase": "Failed", "containerStatuses": [{"name": "engine", "state": {"terminated": state}}]}


@pytest.mark.parametrize(
    ("told", "rank", "ports", "servers"),
    [
        (None, "0", ["http"], 1),
        (None, "1", [], 0),
        ("2", "1", ["http", "http-1"], 2),
        ("1", "1", ["http", "nixl"], 1),
        ("9", "0", ["http", "metrics"], 1),
        ("1", "1", [], 0),
        ("1", "0", ["http", "http-1"], 2),
        ("x", "1", [], 0),
    ],
)
def test_a_pod_with_a_label_for_it_has_as_many_api_servers_as_ports_for_them(
    told: str | None, rank: str, ports: list[str], servers: int
) -> None:
    """Anybody may edit the label of a pod, and nobody its ports."""
    engine = {"name": "engine", "ports": [{"name": name, "containerPort": 8000} for name in ports]}
    body = pod(spec={"containers": [engine]})
    body["metadata"]["labels"] |= {labels.RANK: rank, **({labels.SERVERS: told} if told else {})}
    record = read_pod(body)
    assert record is not None
    assert record.api_servers == servers
    assert dict(record.mislabelled).get(labels.SERVERS) == (None if told in {None, str(servers)} else str(servers))


def test_what_a_replica_runs_is_told_by_its_label_and_the_image_of_its_engine() -> None:
    """Not by that of what stands beside it, or downloads before it."""
    containers = [{"name": "mesh", "image": "mesh:1"}, {"name": "engine", "image": "vllm/vllm-openai:v0.32.0"}]
    body = pod(spec={"containers": containers, "initContainers": [{"name": "weights", "image": "other:2"}]})
    body["metadata"]["labels"][labels.ENGINE_NAME] = "vllm"
    record = read_pod(body)
    assert record is not None
    assert (record.engine, record.image) == ("vllm", "vllm/vllm-openai:v0.32.0")


class TestNode:
    def test_keeps_labels_taints_and_extended_resources_only(self) -> None:
        record = read_node(
            {
                "metadata": {"name": "n1", "uid": "u", "labels": {"b": "2", "a": "1"}},
                "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "unschedulable": True},
                "status": {
                    "capacity": {"cpu": "8", "nvidia.com/gpu": "8", "attachable-volumes-csi": "39"},
                    "allocatable": {"nvidia.com/gpu": "7", "hugepages-2Mi": "0"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        assert record.labels == (("a", "1"), ("b", "2"))
        assert record.capacity == (("nvidia.com/gpu", 8),)
        assert record.allocatable == (("nvidia.com/gpu", 7),)
        assert record.taints == (Taint("gpu", "", "NoSchedule"),)
        assert (record.cordoned, record.ready) == (True, True)

    @pytest.mark.parametrize("status", ["False", "Unknown"])
    def test_is_ready_only_when_the_condition_says_so(self, status: str) -> None:
        body = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
        assert not read_node(body).ready


class TestIdentity:
    def test_needs_labels_and_owner_to_agree(self) -> None:
        record = read_pod(pod())
        assert record is not None
        assert record.identity == PodIdentity(POOL_UID, 7, 0, "abc")

    def test_of_a_pod_that_only_copied_our_labels_is_none(self) -> None:
        """S3: somebody else's pod with our labels is never ours to change."""
        record = read_pod(pod(ownerReferences=[{"apiVersion": "apps/v1", "uid": POOL_UID, "controller": True}]))
        assert record is not None
        assert record.identity is None

    def test_of_a_pod_of_another_pool_of_that_name_is_none(self) -> None:
        owner = {"apiVersion": labels.API_VERSION, "uid": "another", "controller": True}
        record = read_pod(pod(ownerReferences=[owner]))
        assert record is not None
        assert record.identity is None


class TestPod:
    def test_of_others_without_accelerators_is_not_kept(self) -> None:
        body = {"metadata": {"namespace": "a", "name": "b", "uid": "c"}, "spec": {"containers": [{}]}}
        assert read_pod(body) is None

    def test_of_others_with_accelerators_counts(self) -> None:
        body = pod(labels={}, ownerReferences=[], spec={})
        record = read_pod(body)
        assert record is not None
        assert record.requests == (("nvidia.com/gpu", 1),)

    def test_is_gated_while_it_carries_our_gate(self) -> None:
        record = read_pod(pod(spec={"schedulingGates": [{"name": labels.GATE}]}))
        assert record is not None
        assert (record.gated, record.released) == (True, None)

    def test_was_released_when_it_was_bound(self) -> None:
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}
        record = read_pod(pod({"phase": "Pending", "conditions": [condition]}, {"nodeName": "n1"}))
        assert record is not None
        assert (record.released, record.node) == (known_instant("2026-01-01T00:00:09Z"), "n1")

    def test_took_from_its_binding_to_its_first_answer_to_start(self) -> None:
        conditions = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:02:09Z"},
        ]
        record = read_pod(pod({"conditions": conditions}, {"nodeName": "n1"}))
        assert record is not None
        assert record.startup_seconds == 120
        unready = [conditions[0], {**conditions[1], "status": "False"}]
        record = read_pod(pod({"conditions": unready}, {"nodeName": "n1"}))
        assert record is not None
        assert record.startup_seconds is None

    def test_of_a_router_is_kept_although_it_asks_for_no_accelerator(self) -> None:
        body = pod(spec={"containers": [{}]}, labels={labels.FRONT_OF: "uid-of-split"})
        record = read_pod(body)
        assert record is not None
        assert (record.front_of, record.identity, record.requests) == ("uid-of-split", None, ())

    def test_of_a_router_holds_no_devices_and_what_holds_some_is_no_router(self) -> None:
        """A label is easily written: whoever asks for GPUs is counted, and an engine of ours stays one."""
        tags = {labels.FRONT_OF: "uid-of-split"}
        router = read_pod(pod({"phase": "Running"}, {"containers": [{}], "nodeName": "n1"}, labels=tags))
        disguised = read_pod(pod({"phase": "Running"}, {"nodeName": "n1"}, labels=tags))
        assert router is not None
        assert disguised is not None
        assert (router.front_of, router.holds_devices) == ("uid-of-split", False)
        assert (disguised.front_of, disguised.holds_devices) == (None, True)

    def test_was_released_by_our_last_patch_while_it_is_not_bound(self) -> None:
        fields = [
            {"manager": labels.CONVERGE_MANAGER, "time": "2026-01-01T00:00:05Z"},
            {"manager": "kube-scheduler", "time": "2026-01-01T00:00:08Z", "subresource": "status"},
        ]
        record = read_pod(pod(managedFields=fields))
        assert record is not None
        assert record.released == known_instant("2026-01-01T00:00:05Z")

    def test_repeats_the_schedulers_word_while_it_cannot_be_placed(self) -> None:
        condition = {"type": "PodScheduled", "status": "False", "message": "no room"}
        record = read_pod(pod({"phase": "Pending", "conditions": [condition]}))
        assert record is not None
        assert record.message == "no room"

    def test_with_an_unknown_phase_is_unknown(self) -> None:
        record = read_pod(pod({"phase": "Dreaming"}))
        assert record is not None
        assert record.phase is PodPhase.Unknown

    @pytest.mark.parametrize(
        ("state", "started", "loading"),
        [
            ({"waiting": {"reason": "ContainerCreating"}}, False, None),
            ({"running": {"startedAt": "2026-01-01T00:02:00Z"}}, False, 1767225720.0),
            ({"running": {"startedAt": "2026-01-01T00:02:00Z"}}, True, None),
            ({"terminated": {"exitCode": 1}}, False, None),
        ],
        ids=["pulls", "loads", "has answered", "ended"],
    )
    def test_an_engine_loads_from_its_start_until_its_startup_probe_is_answered(
        self, state: Json, *, started: bool, loading: float | None
    ) -> None:
        sidecar = {"name": "proxy", "state": {"running": {"startedAt": "2026-01-01T00:01:00Z"}}}
        engine = {"name": "engine", "state": state, "started": started}
        record = read_pod(pod({"phase": "Running", "containerStatuses": [sidecar, engine]}))
        assert record is not None
        assert record.loading == loading


class TestFailure:
    @pytest.mark.parametrize(
        ("said", "words"),
        [
            (
                (
                    "0/4 nodes are available: 1 Insufficient memory, 3 node(s) didn't satisfy plugin(s) "
                    "[NodeAffinity]. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is "
                    "not helpful for scheduling."
                ),
                "Insufficient memory",
            ),
            (
                (
                    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
                    "1 node(s) had untolerated taint(s) {a: b, c: d}."
                ),
                "Insufficient cpu, node(s) had untolerated taint(s) {a: b, c: d}",
            ),
            (
                "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
                "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
            ("another scheduler's words. preemption: none", "another scheduler's words."),
            ("", ""),
        ],
        ids=["this version", "earlier ones", "only other nodes", "no node", "another scheduler", "nothing"],
    )
    def test_the_scheduler_is_quoted_without_what_it_says_of_other_nodes(self, said: str, words: str) -> None:
        """Their number changes with every node that comes or goes, and with it every status (L3)."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        assert scheduler_words(condition) == words

    def test_a_gate_is_no_word_of_the_scheduler(self) -> None:
        condition = {"status": "False", "reason": "SchedulingGated", "message": "blocked due to gates"}
        assert scheduler_words(condition) == ""

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (terminated(exitCode=1, reason="Error", message="boom"), ContainerFailure("Error", "boom", 1)),
            (terminated(exitCode=137, reason="OOMKilled"), ContainerFailure("OOMKilled", "", 137)),
            (
                {"phase": "Failed", "reason": "Evicted", "message": "disk"},
                ContainerFailure("Evicted", "disk", of_node=True),
            ),
            (
                terminated(exitCode=137, reason="Error") | {"reason": "Evicted", "message": "low on memory"},
                ContainerFailure("Evicted", "low on memory", of_node=True),
            ),
            (
                terminated(exitCode=0, reason="Completed") | {"reason": "Terminated", "message": "node shutdown"},
                ContainerFailure("Terminated", "node shutdown", of_node=True),
            ),
            (
                {"phase": "Running", "reason": "NodeLost", "containerStatuses": [{"state": {"running": {}}}]},
                None,
            ),
            (
                {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}]},
                ContainerFailure("ImagePullBackOff", "no"),
            ),
            (
                {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 2, "reason": "Error"}}}]},
                ContainerFailure("Error", "", 2),
            ),
            ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, None),
            ({"initContainerStatuses": [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}, None),
            ({"containerStatuses": [{"state": {"running": {}}}]}, None),
        ],
        ids=[
            "exit",
            "oom",
            "evicted",
            "evicted as it ran",
            "node shuts down",
            "silent node",
            "image",
            "init",
            "creating",
            "init-done",
            "running",
        ],
    )
    def test_is_what_the_kubelet_reported(self, status: Json, expected: ContainerFailure | None) -> None:
        record = read_pod(pod(status))
        assert record is not None
        assert record.failure == expected

    @pytest.mark.parametrize(
        ("reason", "message"),
        [
            ("Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "10Gi". '),
            ("Evicted", 'Container engine exceeded its local ephemeral storage limit "1Gi". '),
            ("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "),
            ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        ],
    )
    def test_is_its_own_where_it_used_more_than_it_was_allowed(self, reason: str, message: str) -> None:
        record = read_pod(pod({"phase": "Failed", "reason": reason, "message": message}))
        assert record is not None
        assert record.failure == ContainerFailure(reason, message)

    @pytest.mark.parametrize("kind", ["containers", "initContainers"])
    def test_comes_with_the_memory_that_it_was_allowed(self, kind: str) -> None:
        """By whomever: the pod has the limit that admission left it with."""
        ended = {**terminated(exitCode=137, reason="OOMKilled")["containerStatuses"][0], "name": "it"}
        statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[kind]
        allowed = {"name": "it", "resources": {"limits": {"memory": "1Gi"}}}
        record = read_pod(pod({statuses: [ended]}, {"containers": [{}], kind: [{"name": "else"}, allowed]}))
        assert record is not None
        assert record.failure == ContainerFailure("OOMKilled", "", 137, memory_limit="1Gi")

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            ({"running": {}}, None),
            ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, None),
            ({"waiting": {"reason": "CrashLoopBackOff"}}, ContainerFailure("OOMKilled", "", 137, beside="proxy")),
            (
                {"waiting": {"reason": "ErrImagePull", "message": "no"}},
                ContainerFailure("ErrImagePull", "no", beside="proxy"),
            ),
        ],
        ids=["runs again", "just ended", "again and again", "image"],
    )
    def test_is_no_sidecar_that_the_kubelet_starts_anew(self, state: Json, expected: ContainerFailure | None) -> None:
        """Ours before a Gateway, or one that a mesh injects: the engine beside it goes on."""
        proxy = {"name": "proxy", "restartPolicy": "Always"}
        told = {
            "name": "proxy",
            "state": state,
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            "restartCount": 1,
        }
        record = read_pod(pod({"initContainerStatuses": [told]}, {"containers": [{}], "initContainers": [proxy]}))
        assert record is not None
        assert record.failure == expected

    @pytest.mark.parametrize(
        ("told", "fails"),
        [
            ([{"type": "Ready", "status": "True"}], False),
            ([{"type": "ContainersReady", "status": "False", "lastTransitionTime": "2026-07-01T09:00:00Z"}], False),
            ([{"type": "ContainersReady", "status": "False", "lastTransitionTime": "2026-07-01T07:00:00Z"}], True),
            ([], True),
        ],
        ids=["ready", "was ready", "never ready", "nothing told"],
    )
    def test_is_no_sidecar_that_crashes_beside_an_engine_that_has_answered(
        self,
        told: list[Json],
        fails: bool,  # noqa: FBT001 - a case
    ) -> None:
        """A log shipper with a bad ConfigMap ended all engines of a pool at once; whether they answer, probes tell."""
        shipper: Json = {"name": "shipper", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        shipper["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
        engine = {"name": "engine", "state": {"running": {"startedAt": "2026-07-01T08:00:00Z"}}}
        status = {"conditions": told, "containerStatuses": [engine], "initContainerStatuses": [shipper]}
        spec = {"containers": [{}], "initContainers": [{"name": "shipper", "restartPolicy": "Always"}]}
        record = read_pod(pod(status, spec))
        assert record is not None
        assert (record.failure is not None) == fails


def test_an_object_of_ours_is_kept_whole_without_its_managed_fields() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": "team",
            "name": "chat",
            "uid": "u",
            "managedFields": [{}],
            "ownerReferences": [{"apiVersion": labels.API_VERSION, "uid": POOL_UID, "controller": True}],
        },
        "spec": {"ports": []},
    }
    record = read_object(body)
    assert record.owner_uid == POOL_UID
    assert record.body["spec"] == {"ports": []}
    assert "managedFields" not in record.body["metadata"]
