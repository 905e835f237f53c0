"""`spec.pod` and `spec.router`: the pod fields a user may set, and what stands in front of the replicas."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from weft.api.fields import (
    ATOMIC,
    ATOMIC_MAP,
    BY_NAME,
    EACH_ONCE,
    LONGEST_LABEL_KEY,
    SET,
    ImageReference,
    LabelKey,
    LabelValue,
    LocalRef,
    ObjectName,
    Quantity,
    RouterKind,
    SecretKeyRef,
    described,
)
from weft.api.patterns import API_GROUP, API_KIND, DNS_LABEL, HOST_NAME, LABEL_KEY
from weft.api.rules import VALIDATIONS, ApiModel, Rule, refusal
from weft.domain import spec
from weft.domain.labels import GROUP, MANAGED_BY

HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST_NAME)]
Relaxation = Literal["IPCLock", "HostNetwork", "RunAsRoot", "WritableRoot"]

MOST_ANNOTATION_BYTES = 240 * 1024  # of the 256 KiB that Kubernetes takes: Weft's own and others' come on top

_OURS = (
    {
        "rule": f"self.all(key, key.size() <= {LONGEST_LABEL_KEY} && key.matches('{LABEL_KEY}'))",
        "message": "the keys must be label keys such as example.com/team",
    },
    {
        "rule": f"self.all(key, !key.startsWith('{GROUP}/') && key != '{MANAGED_BY}')",
        "message": f"keys below {GROUP}/ and {MANAGED_BY} belong to Weft",
    },
)
_USER_KEYS: JsonDict = {VALIDATIONS: [dict(rule) for rule in _OURS]}


def _leaves_our_keys_alone(pod: Pod) -> bool:
    return not any(key.startswith(f"{GROUP}/") or key == MANAGED_BY for key in (*pod.labels, *pod.annotations))


def _within_a_pods_limit(annotations: dict[str, str]) -> dict[str, str]:
    total = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if total > MOST_ANNOTATION_BYTES:
        raise refusal(
            f"must have at most {MOST_ANNOTATION_BYTES // 1024} KiB in all, keys and values together: Kubernetes takes "
            f"256 KiB on a pod, Weft's own among them, and these have {total / 1024:.0f}"
        )
    return annotations


class Pod(ApiModel):
    """The few pod fields a user may set. There is no other, and no hostPath."""

    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=32, description="Labels added to every pod.", json_schema_extra=_USER_KEYS
    )
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Field(max_length=4096)]], AfterValidator(_within_a_pods_limit)
    ] = Field(
        default_factory=dict, max_length=32, description="Annotations added to every pod.", json_schema_extra=_USER_KEYS
    )
    service_account_name: ObjectName | None = described("ServiceAccount of the pods. Unset: the namespace's default.")
    image_pull_secrets: Annotated[list[LocalRef], EACH_ONCE] = Field(
        default_factory=list, max_length=16, description="Secrets for pulling images.", json_schema_extra=BY_NAME
    )
    runtime_class_name: ObjectName | None = described("RuntimeClass of the pods, such as nvidia.")
    priority_class_name: ObjectName | None = described(
        "PriorityClass of the pods; its value also orders pools that compete for the same GPUs."
    )
    supplemental_groups: Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], EACH_ONCE] = Field(
        default_factory=list,
        max_length=16,
        description="Further groups of the processes, such as that of /dev/kfd or of a claim's files.",
        json_schema_extra=SET,
    )
    relaxations: Annotated[list[Relaxation], EACH_ONCE] = Field(
        default_factory=list,
        max_length=8,
        description="Security restrictions to lift, once the administrator allows them: RunAsRoot (UID 0), and with "
        "it IPCLock (capability IPC_LOCK, for RDMA); WritableRoot, for NIM. HostNetwork is refused so far.",
        json_schema_extra=SET,
    )

    def model_post_init(self, _context: object, /) -> None:
        """Refuse keys of ours; the API server does by a rule on each map."""
        if not _leaves_our_keys_alone(self):
            raise ValueError(_OURS[1]["message"])


class RouterResources(ApiModel):
    """What one router pod asks for."""

    cpu: Quantity | None = described("CPU cores per pod, such as 2 or 500m.")
    memory: Quantity | None = described("Memory per pod in bytes, such as 2Gi.")


class ParentRef(ApiModel):
    """A Gateway, as the Gateway API names a route's parent."""

    group: Annotated[str, Field(max_length=253, pattern=API_GROUP)] = Field(
        default="gateway.networking.k8s.io", description="API group."
    )
    kind: Annotated[str, Field(min_length=1, max_length=63, pattern=API_KIND)] = Field(
        default="Gateway", description="Kind."
    )
    name: ObjectName = Field(description="Name.")
    namespace: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)] | None = described(
        "Namespace; the Gateway must allow routes from here. Unset: this one."
    )
    section_name: ObjectName | None = described("Listener of the Gateway. Unset: every one.")
    port: Annotated[int, Field(ge=1, le=65535)] | None = described("Port of the listener. Unset: every one.")

    @property
    def gateway(self) -> tuple[str, str, str | None, str]:
        """The Gateway whose listeners it selects."""
        return self.group, self.kind, self.namespace, self.name

    def is_distinct_from(self, other: ParentRef) -> bool:
        """Whether a route takes both. The Gateway API's standard channel wants other section names, the rest ports."""
        if self.gateway != other.gateway:
            return True
        alike = (self.section_name is None) == (other.section_name is None)
        return alike and (self.section_name, self.port) != (other.section_name, other.port)


def _distinct(parents: list[ParentRef]) -> list[ParentRef]:
    for one, other in combinations(parents, 2):
        if not one.is_distinct_from(other):
            raise refusal(
                f"must name {one.kind} {one.name} once, or each time with another sectionName: "
                "the Gateway API takes no route with several references to the same"
            )
    return parents


class EndpointPickerRef(ApiModel):
    """The endpoint picker's Service."""

    name: ObjectName = Field(description="Name of the Service, in this namespace.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=9002, description="Its gRPC port.")


class Gateway(ApiModel):
    """A route through the Gateway API, with an endpoint picker of your own."""

    parent_refs: Annotated[list[ParentRef], AfterValidator(_distinct)] = Field(
        min_length=1, max_length=8, description="Gateways that the route attaches to.", json_schema_extra=ATOMIC
    )
    hostnames: Annotated[list[HostName], EACH_ONCE] = Field(
        default_factory=list, max_length=16, description="Host names of the route. Unset: all.", json_schema_extra=SET
    )
    endpoint_picker_ref: EndpointPickerRef = Field(description="The endpoint picker's Service.")


_GATEWAY_WITH_ITS_TYPE = Rule(
    cel="!has(self.type) || (self.type == 'Gateway') == has(self.gateway)",
    message="router.gateway is required when router.type is Gateway, and allowed only then",
    holds=lambda router: (router.type == spec.RouterKind.Gateway) == (router.gateway is not None),
)


class Router(ApiModel):
    """What stands in front of the replicas."""

    rules: ClassVar[tuple[Rule, ...]] = (_GATEWAY_WITH_ITS_TYPE,)

    type: RouterKind = Field(
        default=spec.RouterKind.Nothing,
        description="None: the pool's own Service only. Managed: the engine's router. Gateway: a Gateway API route.",
    )
    replicas: Annotated[int, Field(ge=1, le=32)] = Field(default=1, description="Pods of a managed router.")
    image: ImageReference | None = described(
        "Image of a managed router, or of the sidecars of a split behind a Gateway. Unset: the one that belongs to the "
        "engine."
    )
    resources: RouterResources | None = described("What one pod of a managed router, or one sidecar, asks for.")
    api_key_secret_ref: SecretKeyRef | None = described(
        "Key that requests must carry as a bearer token. Unset: none is asked for.", **ATOMIC_MAP
    )
    gateway: Gateway | None = described("The route, for type Gateway.")


class SplitRouter(Router):
    """What stands in front of a split: prefill and decode need a front that pairs them."""

    type: RouterKind = Field(
        default=spec.RouterKind.Managed,
        description="Managed: the engine's own router, which pairs prefill and decode. Gateway: a Gateway API route "
        "with an endpoint picker. None: no front; bring one that pairs the two child pools.",
    )
    replicas: Annotated[int, Field(ge=1, le=32)] = Field(
        default=2, description="Pods of a managed router: of several, one may go without a request being lost."
    )
