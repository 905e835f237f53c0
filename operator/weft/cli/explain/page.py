"""The page of `weft explain`: a resource's status in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weft.api.figures import read_milliseconds
from weft.cli.telling.figures import figure, moment
from weft.domain.reasons import Reason
from weft.domain.texts.figures import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = dict[str, Any]
_ORDER = (
    *("Planned", "ArgumentsUnknown", "ImageMismatched", "Relaxed", "Placed", "Ready", "CapacityRequested"),
    *("SLOMet", "NetworkBound", "TransfersFailing", "Reconciling", "Stalled"),
)
_NOT_LOOKED_AT = (
    "Weft has not looked at it yet. Does the operator run, and serve this namespace? "
    "`kubectl -n weft-system get pods` and `kubectl -n weft-system logs deployment/weft-controller` tell."
)
SLOW_TIMES = 2.0  # a transfer is slow from so many times its expected duration
_OBSERVED = {
    "inputTokens": "{} tokens in",
    "outputTokens": "{} tokens out",
    "prefixHitPercent": "{} % of prompts cached",
    "attainmentPercent": "{} % within the SLO",
}
_BAD_WHEN_TRUE = {
    *("ArgumentsUnknown", "ImageMismatched", "Relaxed", "CapacityRequested", "NetworkBound", "TransfersFailing"),
    *("Reconciling", "Stalled"),
}


def explanation(body: Json) -> RenderableType:
    """Show the whole page: headline, conditions, plan and rejected shapes, assignments, avoided nodes, failures."""
    status = body.get("status") or {}
    parts: list[RenderableType] = [_headline(body, status), _conditions(status)]
    if not status:
        parts.append(Text(_NOT_LOOKED_AT, style="yellow"))
    decided, seen = (_scale, _plan, _start_up, _assignments, _failure, _avoided), (_transport, _observed)
    sections = [teller(status) for teller in (*decided, *seen, _calibrated, _proven)]
    parts.extend(Padding(section, (1, 0, 0, 0)) for section in sections if section is not None)
    return Group(*parts)


def is_ready(body: Json) -> bool:
    """Whether its Ready condition holds."""
    conditions = (body.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _headline(body: Json, status: Json) -> Text:
    metadata = body["metadata"]
    text = Text(f"{body['kind']}/{metadata['name']}", style="bold")
    text.append(f"  namespace {metadata.get('namespace', 'default')}", style="dim")
    for word, key in (("desired", "desiredReplicas"), ("ready", "readyReplicas")):
        if key in status:
            text.append(f"  {status[key]} {word}")
    for side in ("prefill", "decode"):
        if side in status:
            text.append(f"  {side} {status[side].get('ready', 0)}/{status[side].get('desired', 0)}")
    return text.append(f"  {status['url']}" if status.get("url") else "", style="dim")


def _conditions(status: Json) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    by_type = {one["type"]: one for one in status.get("conditions") or []}
    for kind in [*_ORDER, *sorted(set(by_type) - set(_ORDER))]:
        one = by_type.get(kind)
        if one is not None:
            good = (one["status"] == "True") != (kind in _BAD_WHEN_TRUE)
            style = "yellow" if one["status"] == "Unknown" else "green" if good else "red"
            table.add_row(
                Text(kind, style="bold"), Text(one["status"], style=style), one["reason"], one.get("message", "")
            )
    return table


def _scale(status: Json) -> RenderableType | None:
    scale = status.get("scale")
    if not scale:
        return None
    told = f"{scale['reason']}: {scale.get('message', '')}"
    if scale["reason"] == Reason.OwnedExternally.value and "recommendedReplicas" in status:
        told += f"; Weft would run {status['recommendedReplicas']}"
    return Text("replicas: ", style="bold").append(told, style="not bold default")


def _plan(status: Json) -> RenderableType | None:
    plan = status.get("plan")
    if not plan or "prediction" not in plan:
        return Text(f"shape: {plan['shape']}") if plan else None
    expected = plan["prediction"]
    head = Text("shape: ", style="bold").append(f"{plan['shape']}", style="bold green")
    head.append(f"  {plan['reason']}: {plan.get('message', '')}", style="not bold default")
    facts = Text(f"expected of one replica: {_expected(expected)}, limited by {expected['limit']}", style="dim")
    alternatives = plan.get("alternatives") or []
    if not alternatives:  # an empty table would print an empty line
        return Group(head, facts)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for one in alternatives:
        table.add_row("not", one["shape"], one["reason"], one.get("message", ""))
    return Group(head, facts, table)


def _expected(prediction: Json) -> str:
    words = [_rate(prediction["capacity"])]
    for name in ("ttft", "tpot"):
        latency = prediction[name]
        if (
            float(latency["mean"].removesuffix("ms")) > 0
        ):  # a prefill replica, or an answer of one token, has none after the first
            words.append(f"{name.upper()} p50 {figure(latency['p50'])} p99 {figure(latency['p99'])}")
    return ", ".join(words)


def _rate(text: str) -> str:
    told = figure(text)
    return f"{told} request/s" if told == "1" else f"{told} requests/s"


def _start_up(status: Json) -> RenderableType | None:
    start_up = status.get("startUp")
    if not start_up:
        return None
    return Text("start-up: ", style="bold").append(start_up.get("message", ""), style="not bold default")


def _assignments(status: Json) -> RenderableType | None:
    assignments = status.get("assignments")
    if not assignments:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for one in assignments:
        outdated = "" if one.get("revision") == status.get("revision") else Reason.Outdated.value
        table.add_row(f"replica {one['replica']}", _place(one), f"since {moment(one['since'])}", outdated)
    return table


def _place(assignment: Json) -> str:
    """Return the nodes of an assignment, or the scheduler and queue that pick them."""
    asked = assignment.get("handover")
    return f"{asked['scheduler']}, queue {asked['queue']}" if asked else ", ".join(assignment["nodes"])


def _failure(status: Json) -> RenderableType | None:
    failure = status.get("failure")
    if not failure:
        return None
    text = Text(f"last failure ({failure['count']} in a row, {moment(failure['last'])}): ", style="bold red")
    return text.append(f"{failure['reason']}: {failure.get('message', '')}", style="not bold default")


def _avoided(status: Json) -> RenderableType | None:
    avoided = status.get("avoided")
    if not avoided:
        return None
    named = (f"{one['node']} ({one['reason']}, {moment(one['since'])})" for one in avoided)
    return Text("nodes that come last: ", style="bold").append(", ".join(named), style="not bold default")


def _transport(status: Json) -> RenderableType | None:
    """Show what carries KV, with measured and expected transfer times."""
    wire, seen = status.get("transport"), status.get("observed") or {}
    if not wire:
        return None
    text = Text("transport: ", style="bold").append(wire, style="not bold default")
    measured, expected = seen.get("transfer"), seen.get("transferExpected")
    if measured is None or expected is None:
        return text
    slow = read_milliseconds(measured) > SLOW_TIMES * read_milliseconds(expected)
    words = f"\nmeasured: {figure(measured)} a transfer, {figure(expected)} expected of such prompts"
    return text.append(f"{words}: the network is slow" if slow else words, style="yellow" if slow else "dim")


def _observed(status: Json) -> RenderableType | None:
    observed = status.get("observed")
    if not observed:
        return None
    figures = [_rate(observed["requestsPerSecond"])] if observed.get("requestsPerSecond") else []
    figures += [word.format(figure(observed[key])) for key, word in _OBSERVED.items() if observed.get(key)]
    for key in ("ttft", "tpot"):
        targets = " ".join(f"{percentile} {figure(value)}" for percentile, value in (observed.get(key) or {}).items())
        figures += [f"{key.upper()} {targets}"] if targets else []
    text = Text("observed: ", style="bold").append(", ".join(figures), style="not bold default")
    live = ", ".join(observed.get("live") or ())
    if live:
        text.append(f"\nmeasured values in force instead of spec.workload: {live}", style="dim")
    for caveat in observed.get("caveats") or ():
        text.append(f"\nnote: {caveat}", style="yellow")
    return text


def _proven(status: Json) -> RenderableType | None:
    """Show the load at which targets were met, for the planned shape."""
    plan, proven = status.get("plan") or {}, status.get("proven")
    if not proven or f" as {plan.get('shape')} on " not in proven["subject"]:
        return None
    met = f"{proven['targets']} was met at {figure(proven['requestsPerSecond'])} requests/s on each of"
    tokens = f"{figure(proven['inputTokens'])} and {figure(proven['outputTokens'])} tokens in and out"
    told = f"{met} {counted(proven['replicas'], 'replica')}, {tokens}"
    return Text("proven: ", style="bold").append(told, style="not bold default")


def _calibrated(status: Json) -> RenderableType | None:
    """Show the calibration of the planned shape and engine; the status may hold others beside it."""
    plan = status.get("plan") or {}
    runs = (plan.get("shape"), plan.get("engineRelease"))
    known = next((one for one in status.get("calibration") or () if (one["shape"], one["engine"]) == runs), None)
    if known is None:
        return None
    points = counted(known["points"], "point")
    factors = f"prefill {figure(known['prefill'])}, decode {figure(known['decode'])} of the prediction, from {points}"
    named = (("TTFT", known.get("ttftTail")), ("TPOT", known.get("tpotTail")))
    tails = " and ".join(f"{name} {figure(tail)}" for name, tail in named if tail is not None)
    told = f"{factors}; percentiles over it: {tails}" if tails else factors
    return Text("calibrated: ", style="bold").append(told, style="not bold default")
