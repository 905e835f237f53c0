"""ResourceQuotas, as far as they limit engine pods: their number, and the accelerators that they request."""

from __future__ import annotations

from dataclasses import dataclass

COUNT_OF_PODS = ("pods", "count/pods")
_DEVICES = ("requests.", "limits.")
_OF_SIZED_PODS = {"NotTerminating": True, "NotBestEffort": True, "Terminating": False, "BestEffort": False}
_OF_UNSIZED_PODS = {**_OF_SIZED_PODS, "NotBestEffort": False, "BestEffort": True}


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """One scope of a quota, which selects the pods to count. `operator` is that of a scope selector."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def matches(self, priority_class: str | None, *, sized: bool) -> bool:
        """Whether an engine pod is in the scope; `sized` says that it requests CPU or memory (else it is BestEffort).

        Engine pods have no deadline (`NotTerminating`), and no affinity to pods of other namespaces.
        """
        if self.name != "PriorityClass":
            return (_OF_SIZED_PODS if sized else _OF_UNSIZED_PODS).get(self.name, False)
        listed = priority_class in self.values
        known = {"In": listed, "NotIn": not listed, "Exists": bool(priority_class), "DoesNotExist": not priority_class}
        return known.get(self.operator, False)


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """One ResourceQuota. `hard` and `used` are by the quota's own names: `pods`, `requests.nvidia.com/gpu`.

    Its other limits, such as those of CPU and memory, are not kept. It counts pods that are in all of its `scopes`.
    """

    namespace: str
    name: str
    hard: tuple[tuple[str, int], ...]
    used: tuple[tuple[str, int], ...] = ()
    scopes: tuple[QuotaScope, ...] = ()

    def counts(self, priority_class: str | None, *, sized: bool) -> bool:
        """Whether the quota counts engine pods of this priority class."""
        return all(scope.matches(priority_class, sized=sized) for scope in self.scopes)


def limited_device(limit: str) -> str | None:
    """The extended resource that a quota limit is about, such as `nvidia.com/gpu` for `requests.nvidia.com/gpu`."""
    for prefix in _DEVICES:
        if limit.startswith(prefix) and "/" in limit:
            return limit.removeprefix(prefix)
    return None
