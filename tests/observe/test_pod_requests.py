"""What a pod holds of its node, as the scheduler counts it."""

from __future__ import annotations

from typing import Any

from weft.observe.objects.amounts import accelerator_like, pod_requests

Json = dict[str, Any]


class TestRequests:
    def test_sum_containers_and_take_the_largest_init_container(self) -> None:
        def gpus(count: str) -> Json:
            return {"resources": {"requests": {"nvidia.com/gpu": count}}}

        spec = {
            "containers": [gpus("2"), gpus("1")],
            "initContainers": [gpus("2"), {**gpus("1"), "restartPolicy": "Always"}],
        }
        assert pod_requests(spec) == (("nvidia.com/gpu", 4),)

    def test_count_the_sidecars_that_stand_before_an_init_container_beside_it(self) -> None:
        def gpus(count: str, **more: str) -> Json:
            return {"resources": {"limits": {"nvidia.com/gpu": count}}, **more}

        sidecar, once, engine = gpus("2", restartPolicy="Always"), gpus("6"), gpus("1")
        asked = [
            pod_requests({"containers": [engine], "initContainers": order})
            for order in ([sidecar, once], [once, sidecar])
        ]
        assert [(("nvidia.com/gpu", 8),), (("nvidia.com/gpu", 6),)] == asked

    def test_leave_out_what_is_no_extended_resource_or_no_amount(self) -> None:
        quantities = {"cpu": "1", "node.kubernetes.io/x": "1", "rdma/ib": "2", "amd.com/gpu": "many"}
        assert accelerator_like(quantities) == (("rdma/ib", 2),)
