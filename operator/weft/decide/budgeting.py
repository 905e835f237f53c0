"""What quotas pay for, of all that pools would have without them (`decide/counting/budgets.py` has the rules)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.counting.accounts import Accounts
from weft.decide.counting.budgets import Claim, charge_owed, claim_of, share_out
from weft.decide.counting.counts import count
from weft.decide.order import Unit, priority_of
from weft.domain.stumbling import stumbled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.decide.pass_state import PassState
    from weft.scaling import ScaleAnswer


def within_budgets(units: Sequence[Unit], state: PassState) -> PassState:
    """Share out what quotas leave; replicas that wait in vain for their pods lose what quotas had promised them."""
    accounts, heard = Accounts.of(state.snapshot.quotas), state.snapshot.heard
    state = replace(state, accounts=accounts)
    pools = [pool for unit in units for pool in unit]
    charge_owed(accounts, pools, state.survivors, heard, paid=True)
    limited = [unit for unit in state.by_plan(units)[0] if accounts.limit(unit[0].key.namespace)]
    counted = _counted_freely(limited, state)
    claims = [(priority_of(unit), _claims(unit, counted[unit[0].key.uid], state)) for unit in limited]
    rest = accounts.copy()
    shares = share_out(claims, rest)
    for each in (accounts, rest):
        charge_owed(each, pools, state.survivors, heard, paid=False)
    by_uid = {claim.planned.pool.key.uid: claim for _, unit in claims for claim in unit}
    return replace(state, shares=shares, counted=counted, rest=rest, claims=by_uid)


def _counted_freely(units: Iterable[Unit], state: PassState) -> dict[str, tuple[ScaleAnswer, ...]]:
    """What every pool would have without quotas, by UID of the first pool of its unit."""
    counted: dict[str, tuple[ScaleAnswer, ...]] = {}
    for unit in units:
        known = [state.prospects[pool.key.uid] for pool in unit]
        try:
            counted[unit[0].key.uid] = count(known, state.split_of(unit), state.snapshot, {})
        except Exception as error:
            raise stumbled(error, *unit) from error
    return counted


def _claims(unit: Unit, answers: Iterable[ScaleAnswer], state: PassState) -> list[Claim]:
    planned = (state.prospects[pool.key.uid].planned for pool in unit)
    plans = [each for each in planned if each is not None]
    seen, told = state.survivors, state.snapshot.observations
    uids = [planned.pool.key.uid for planned in plans]
    claims = [
        claim_of(planned, seen[uid], answer.desired, state.roll, told.get(uid))
        for planned, answer, uid in zip(plans, answers, uids, strict=True)
    ]
    return [replace(each, held=state.held(each.planned)) for each in claims]
