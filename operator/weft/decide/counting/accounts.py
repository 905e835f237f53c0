"""What is left of ResourceQuotas while a pass decides: a pod that the API server would refuse is not asked for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.domain.quotas import COUNT_OF_PODS, limited_device
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.render.facts import device_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from weft.decide.plans.planning import Planned
    from weft.domain.cluster import PodRecord
    from weft.domain.quotas import QuotaRecord
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec

_SIZES = frozenset({"cpu", "memory"})  # what makes a pod more than BestEffort


@dataclass(slots=True)
class Account:
    """One limit of one quota; `left` may be below zero, where a quota was lowered."""

    quota: QuotaRecord
    limit: str
    hard: int
    left: int

    def needed(self, shape: Shape) -> int:
        """How much of the limited resource one replica takes."""
        if self.limit in COUNT_OF_PODS:
            return shape.pods
        return shape.gpus if limited_device(self.limit) == device_resource(shape) else 0


@dataclass(frozen=True, slots=True)
class QuotaLack:
    """What an account does not pay for: one replica of a pool, or of both halves of its split, which take `needed`."""

    account: Account
    planned: Planned
    needed: int

    @property
    def missing(self) -> int:
        """By how much the limit is too low; more than a replica takes where a quota was lowered below its use."""
        return max(1, self.needed - self.account.left)


@dataclass(frozen=True, slots=True)
class Accounts:
    """All quotas of all namespaces. Nothing is limited where there are none."""

    by_namespace: dict[str, list[Account]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, quotas: Iterable[QuotaRecord]) -> Self:
        """The accounts of these quotas, with what is left by their last count."""
        accounts = cls()
        for quota in sorted(quotas, key=lambda each: (each.namespace, each.name)):
            used = dict(quota.used)
            accounts.by_namespace[quota.namespace] += [
                Account(quota, limit, hard, hard - used.get(limit, 0)) for limit, hard in quota.hard
            ]
        return accounts

    def copy(self) -> Accounts:
        """A copy on which to try something."""
        return Accounts({name: [replace(each) for each in known] for name, known in self.by_namespace.items()})

    def only(self, namespace: str) -> Accounts:
        """A copy of the accounts of one namespace, on which to try something."""
        known = self.by_namespace.get(namespace, ())
        return Accounts({namespace: [replace(each) for each in known]})

    def limit(self, namespace: str) -> bool:
        """Whether any quota limits engine pods of a namespace."""
        return bool(self.by_namespace.get(namespace))

    def charge(self, namespace: str, spec: PoolSpec, shape: Shape, pods: int) -> None:
        """Charge `pods` pods of a replica that are still to be created."""
        for account in self._of(namespace, spec):
            account.left -= account.needed(shape) * pods // max(1, shape.pods)

    def pay(self, planned: Planned) -> None:
        """Charge one whole replica."""
        shape = planned.plan.shape
        self.charge(planned.pool.key.namespace, planned.spec, shape, shape.pods)

    def give_back(self, planned: Planned, pods: Iterable[PodRecord]) -> None:
        """Give back what pods of a pool take, at most up to the limit: older pods may have another PriorityClass."""
        gone = list(pods)
        for account in self._of(planned.pool.key.namespace, planned.spec) if gone else ():
            if account.needed(planned.plan.shape) > 0:
                device = limited_device(account.limit)
                back = len(gone) if device is None else sum(pod.asks_for(device) for pod in gone)
                account.left = min(account.hard, account.left + back)

    def count_both(self, one: Planned, other: Planned) -> bool:
        """Whether any one limit counts replicas of both pools."""
        first, second = (
            {id(account) for account in self._of(each.pool.key.namespace, each.spec) if account.needed(each.plan.shape)}
            for each in (one, other)
        )
        return not first.isdisjoint(second)

    def short(self, together: Sequence[Planned]) -> QuotaLack | None:
        """What the first account lacks that does not pay for one replica of each of these; None if all do."""
        needed: dict[int, int] = defaultdict(int)
        for planned in together:
            for account in self._of(planned.pool.key.namespace, planned.spec):
                needed[id(account)] += account.needed(planned.plan.shape)
                if account.needed(planned.plan.shape) > 0 and account.left < needed[id(account)]:
                    return QuotaLack(account, planned, needed[id(account)])
        return None

    def _of(self, namespace: str, spec: PoolSpec) -> Iterator[Account]:
        """The accounts that count the engine pods of a pool."""
        sized = any(name in _SIZES for name, _ in spec.engine.resources)
        for account in self.by_namespace.get(namespace, ()):
            if account.quota.counts(spec.pod.priority_class, sized=sized):
                yield account


def has_no_room(lack: QuotaLack) -> Explanation:
    """Why there is no other replica now. The message has a live number only where a quota is below its use."""
    below = max(0, -lack.account.left)
    wish = f"raise it by up to {lack.account.needed(lack.planned.plan.shape) + below}, or free as much"
    return Explanation(Reason.BudgetExhausted, f"{_named(lack.account)} has no room for another replica; {wish}")


def leaves_room(lack: QuotaLack, replicas: int, gpus: int) -> Explanation:
    """Why there are so many replicas of so many GPUs and no more, and what one more would take."""
    room = f"{_named(lack.account)} leaves room for {counted(replicas, 'replica')} of {counted(gpus, 'GPU')}"
    wish = f"raise it by {lack.missing}, or free as much, for one more"
    return Explanation(Reason.BudgetExhausted, f"{room}, and more are wanted; {wish}")


def _named(account: Account) -> str:
    return f"ResourceQuota {account.quota.name} ({account.limit}: {account.hard})"
