"""Options that several commands share or that are many, with checks of their values before anything else runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from weft.cli.typed.reference import refused_namespace
from weft.cli.typed.times import TIME, time_within
from weft.domain.relaxations import CAN_BE_ALLOWED, FLAG

HIGHEST_PRICE = 1e9  # per GPU-hour, in any currency
LONGEST_SECONDS = 3600.0  # longest interval: less often than this would be unattended
LONGEST_START = 86_400.0  # seconds; no replica takes a day to start
LONGEST_TRACE = 1e9  # seconds


def namespace(name: str | None) -> str | None:
    """Return a name that a namespace may have, or None; raises `typer.BadParameter` for another one."""
    refused = refused_namespace(name) if name is not None else None
    if refused is not None:
        raise typer.BadParameter(refused)
    return name


def namespaces(names: list[str] | None) -> list[str] | None:
    """Return names that namespaces may have; None for an empty list."""
    return [name for name in names or () if namespace(name)] or None


def web_address(url: str | None) -> str | None:
    """Return an http or https URL with a host, or None; raises `typer.BadParameter` for anything else."""
    if url is not None and not _is_web_address(url):
        raise typer.BadParameter(f"{url!r} is no URL of a Prometheus: write for example http://prometheus:9090")
    return url


def address(host: str) -> str:
    """Return a name or number that resolves; whether it is this machine's own only shows when listening there."""
    import socket  # which nothing else waits for before a command is understood

    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        raise typer.BadParameter(f"{host!r} is no address: write for example 0.0.0.0 or localhost") from None
    return host


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not any(map(str.isspace, url))


def relaxations(names: list[str] | None) -> list[str] | None:
    """Return the names if an administrator can allow each of them; raises `typer.BadParameter` otherwise."""
    unknown = [name for name in names or () if name not in CAN_BE_ALLOWED]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} cannot be allowed: {' or '.join(CAN_BE_ALLOWED)}")
    return names


MOST_WRITES = 10_000  # at once or per second: more than any API server takes


def time_option(name: str, purpose: str, least: float = 0.0, most: float = LONGEST_SECONDS) -> typer.models.OptionInfo:
    """Return an option for a time between two bounds in seconds."""
    how = "seconds, or 90s, 2m, 1h30m"
    parser = time_within(least, most)
    found: typer.models.OptionInfo = typer.Option(name, metavar=TIME, parser=parser, help=f"{purpose}; {how}")
    return found


Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="kubeconfig context; unset: the current one")
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="namespace; unset: the context's, in a pod its own",
        callback=namespace,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="serve and write only here; repeatable", callback=namespaces
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="unset: the service account in a pod, else KUBECONFIG or ~/.kube/config"
    ),
]
PrometheusUrl = Annotated[
    str | None,
    typer.Option(
        "--prometheus-url",
        metavar="URL",
        help="where metrics come from; unset, or while it does not answer: engines are scraped directly",
        callback=web_address,
    ),
]
Host = Annotated[
    str,
    typer.Option("--host", metavar="ADDRESS", help="where /healthz, /readyz and /metrics listen", callback=address),
]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="their port; 0 takes a free one")]
Tick = Annotated[float, time_option("--tick", "time between decisions when nothing happens", 0.1)]
MetricsInterval = Annotated[float, time_option("--metrics-interval", "time between two scrapes of metrics", 0.1)]
Interval = Annotated[float, time_option("--interval", "time between two refreshes", 0.5)]
WritesPerSecond = Annotated[
    int,
    typer.Option(
        "--writes-per-second", metavar="N", min=1, max=MOST_WRITES, help="most writes to the API server per second"
    ),
]
BurstWrites = Annotated[
    int, typer.Option("--burst-writes", metavar="N", min=1, max=MOST_WRITES, help="how many writes may come at once")
]
Resync = Annotated[float, time_option("--resync", "time between two passes over every resource", 1.0)]
MovesPerHour = Annotated[
    int,
    typer.Option(
        "--moves-per-hour",
        metavar="COUNT",
        min=0,
        max=1000,
        help="how many replicas of all pools may move so that others get a place; 0: moves are only suggested",
    ),
]
MovesAtOnce = Annotated[
    int, typer.Option("--moves-at-once", metavar="COUNT", min=1, max=8, help="how many moves one decision may begin")
]
AllowRelaxations = Annotated[
    list[str] | None,
    typer.Option(
        FLAG,
        metavar="NAME",
        help="what pods may do beyond Pod Security restricted where their resource asks for it; repeatable",
        callback=relaxations,
    ),
]

CrdsDirectory = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="folder to write the CustomResourceDefinitions to")
]
LeaderElect = Annotated[
    bool, typer.Option("--leader-elect", help="stand by while another operator holds the Lease weft of this namespace")
]
Record = Annotated[
    Path | None,
    typer.Option("--record", metavar="DIR", help="keep what each decision saw and said, for `weft replay`"),
]
RecordMegabytes = Annotated[
    int,
    typer.Option(
        "--record-megabytes",
        metavar="COUNT",
        min=1,
        max=1_000_000,
        help="megabytes that records may take; the oldest are deleted",
    ),
]

Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="plan for this model instead of a file")]
Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="config.json of a model that Weft does not know")
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="NUMBER", help="requests per second, such as 8, or 500m for 0.5 \\[default: 1]"),
]
Isl = Annotated[
    str | None,
    typer.Option("--isl", metavar="MEAN[:P95]", help="mean tokens of a prompt, and their p95 \\[default: 1024]"),
]
Osl = Annotated[
    str | None,
    typer.Option("--osl", metavar="MEAN[:P95]", help="mean tokens of an answer, and their p95 \\[default: 256]"),
]
Ttft = Annotated[
    list[str] | None,
    typer.Option(
        "--ttft", metavar="P=TIME", help="target for the time to the first token, such as p95=500ms; repeatable"
    ),
]
Tpot = Annotated[
    list[str] | None,
    typer.Option("--tpot", metavar="P=TIME", help="target for the time per output token, such as p95=30ms; repeatable"),
]
Accelerators = Annotated[
    list[str] | None,
    typer.Option(
        "--accelerator", metavar="NAME", help="an accelerator that may be used, such as H200; repeatable; unset: any"
    ),
]
Precisions = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="a precision of the weights that may be used, such as FP8; repeatable; unset: the checkpoint's",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE", help="YAML with InferencePools and PDSplits; - is stdin; repeatable"),
]
FabricFile = Annotated[
    str | None,
    typer.Option(
        "--fabric",
        metavar="FILE",
        help="nodes, and pods on them, as `kubectl get nodes,pods -A -o yaml` prints them; or empty nodes, as 4xH100",
    ),
]
PlanContext = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="plan against this kubeconfig context; it is only read"),
]
Breakdown = Annotated[bool, typer.Option("--breakdown", help="show where the time of a step goes")]
Chart = Annotated[bool, typer.Option("--chart", help="draw what --plot draws, in the terminal")]
Export = Annotated[
    Path | None,
    typer.Option("--export", metavar="FILE", help="write the recommended resource, ready for `kubectl apply`"),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="draw throughput against speed for a user, as .svg or .png (needs weft\\[plot])"
    ),
]
Drain = Annotated[
    list[str] | None,
    typer.Option(
        "--drain", metavar="NODE", help="say what draining this node would do; repeatable; nothing is written"
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        "--gpu-hour-price",
        metavar="AMOUNT",
        min=0.0,
        max=HIGHEST_PRICE,
        help="price of one H100 for an hour: costs are then in that currency",
    ),
]
TraceFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--trace",
        metavar="[NAME=]FILE|SHAPE",
        help="requests, with the name of their resource where there are several: a CSV or JSON lines, or a shape "
        "such as poisson:rate=20,seconds=3600, "
        "step:from=2,to=20,at=600, ramp:from=1,to=20,over=1200, day:rate=10,peak=1.8, burst:rate=10,times=4,every=600",
    ),
]
SortTrace = Annotated[
    bool,
    typer.Option(
        "--sort",
        help="put rows of --trace in order of time, as logs written at the end of requests need it; without it, a file "
        "in another order is refused",
    ),
]
FromPrometheus = Annotated[
    str | None,
    typer.Option(
        "--from-prometheus",
        metavar="URL",
        help="Prometheus from whose metrics of the resource's engines the requests are drawn",
        callback=web_address,
    ),
]
Hours = Annotated[
    float | None,
    typer.Option(
        "--hours",
        metavar="COUNT",
        min=0.1,
        max=24.0 * 366,
        help="how many of the last hours --from-prometheus reads \\[default: 24]",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="who sizes the pools: weft (default), hpa, aibrix, wva, keda-slo, dynamo, heteroscale, static, oracle; or "
        "several",
    ),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="[NAME.]KEY=VALUE",
        help="a field to change, such as spec.slo.ttft.p95=1s, in all resources or in one; repeatable",
    ),
]
Fails = Annotated[
    list[str] | None,
    typer.Option("--fail", metavar="NODE@TIME", help="a node that fails, and when, such as gpu-7@1h30m; repeatable"),
]
StartUp = Annotated[
    float | None,
    time_option(
        "--start-up", "time from a node to the first answer (unset: what `weft plan` expects)", most=LONGEST_START
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", min=0, help="seed of all random draws: the same seed gives the same answer"),
]
Scale = Annotated[
    float, typer.Option("--scale", metavar="FACTOR", min=1e-6, max=1e6, help="multiply the rate of the trace by this")
]
WarmUp = Annotated[float, time_option("--warm-up", "time at the beginning that does not count", most=LONGEST_TRACE)]
Front = Annotated[
    str, typer.Option("--front", metavar="RULE", help="how replicas are picked for requests: LeastLoad or RoundRobin")
]
Patience = Annotated[
    float | None,
    time_option(
        "--patience",
        "time after which clients cancel a request without a first token (unset: never)",
        0.001,
        LONGEST_TRACE,
    ),
]
Retries = Annotated[
    int, typer.Option("--retries", metavar="N", min=0, max=100, help="how often clients retry a failed request")
]
Blind = Annotated[
    list[str] | None,
    typer.Option("--blind", metavar="FROM-TO", help="a time without metrics, such as 10m-20m; repeatable"),
]
OnePool = Annotated[
    str | None, typer.Option("--pool", metavar="NAME", help="simulate only this one of several resources")
]
