"""Names of our labels, annotations, finalizers and field managers, in one place."""

from __future__ import annotations

GROUP = "weft.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_WEFT = "weft"

POOL = f"{GROUP}/pool"  # pool name, for people and for `kubectl get pods -l`
POOL_UID = f"{GROUP}/pool-uid"
SPLIT = f"{GROUP}/split"  # split name, on everything below a PDSplit
SPLIT_UID = f"{GROUP}/split-uid"  # on pods of both halves, for an endpoint picker
ROLE = f"{GROUP}/role"  # aggregated, prefill, decode
REPLICA = f"{GROUP}/replica"  # replica id, decimal
RANK = f"{GROUP}/rank"  # rank of the pod in the replica, "0" is the first
REVISION = f"{GROUP}/revision"  # hash of what the pod was rendered from
ROUTED = f"{GROUP}/routed"  # "true" while fronts and Services may choose this pod
UNROUTED = f"{GROUP}/unrouted"  # annotation: when the label above was removed from the pod, RFC 3339
RELABELLED = f"{GROUP}/relabelled"  # annotation: when labels that somebody edited were restored, RFC 3339
SERVERS = f"{GROUP}/servers"  # API servers of the pod, on as many ports; without it: one in the first pod, else none
APPLIED = f"{GROUP}/applied"  # annotation: hash of an object as we rendered it, so that removals are seen too
FILE = f"{GROUP}/file-"  # annotation of a pod, plus a file name: content that its container reads as that file
PAIR = f"{GROUP}/pair"  # hash of what halves of a split must share: only equal ones work together
FRONT_OF = f"{GROUP}/front-of"  # on front pods: UID of the pool or split that they serve
ENGINE = f"{GROUP}/engine"  # on a front that serves replicas of this engine alone, as the next label has it
ENGINE_NAME = "app.kubernetes.io/name"  # on engine pods: the engine that they run, in lower case

COMPUTE_DOMAIN = "resource.nvidia.com/computeDomain"  # of NVIDIA's driver, on nodes: UID of their ComputeDomain

GATE = f"{GROUP}/placement"  # scheduling gate of pods whose slot is not confirmed yet

DECIDE_MANAGER = "weft-decide"  # status: plan, assignments, desired counts, their conditions
CONVERGE_MANAGER = "weft-converge"  # observed counts, Ready/Reconciling/Stalled, and all child objects
SEED_MANAGER = "weft-seed"  # initial values of fields that others own afterwards
