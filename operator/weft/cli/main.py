"""The commands. Each reads its input, asks the core, and prints; exit codes are described in `failure`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import __version__, cli
from weft.cli.cluster.inputs import refuse_to_read_twice, world_from
from weft.cli.ends.failure import ANSWER_IS_NO, CommandFailure
from weft.cli.telling.terminal import Format, show, working, write
from weft.cli.typed import options
from weft.cli.typed.commands import Commands
from weft.cli.typed.completing import Shell, write_script

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},  # as kubectl has it
    help="Weft weaves LLM inference into a GPU fabric.",
    epilog="Exit codes: 0 yes, 1 the answer is no, 2 wrong input, 3 the cluster refuses, 4 a fault of Weft.",
)

Output = Annotated[Format, typer.Option("--output", "-o", case_sensitive=False, help="format of the answer")]


def _write_version() -> None:
    write(f"weft {__version__}\n")


@app.callback(invoke_without_command=True)
def version_option(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit", is_eager=True)] = False,
) -> None:
    """Options of `weft` itself."""
    if version:
        _write_version()
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@app.command()
def plan(  # noqa: PLR0913 - one option a wish, as on every command line
    files: options.Files = None,
    fabric: options.FabricFile = None,
    context: options.PlanContext = None,
    form: Output = Format.table,
    *,
    model: options.Model = None,
    config: options.Config = None,
    rate: options.Rate = None,
    isl: options.Isl = None,
    osl: options.Osl = None,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    accelerator: options.Accelerators = None,
    precision: options.Precisions = None,
    breakdown: options.Breakdown = False,
    plot: options.Plot = None,
    chart: options.Chart = False,
    export: options.Export = None,
    price: options.Price = None,
    drain: options.Drain = None,
) -> None:
    """Say which shape would be chosen, where replicas would go, and why the alternatives lost.

    Plans the resources of --file, or what --model, --rate, --isl, --osl, --ttft and --tpot describe. Needs no cluster.
    Without --fabric and --context it plans for an empty cluster with every accelerator Weft knows. Exit code 1 when a
    pool gets no shape, none that meets its SLO, or no place. With --drain it says what draining nodes would do to what
    runs, and nothing else: in the cluster of --context or the current one, or in the file --fabric.
    """
    if drain:
        _plan_a_drain(drain, (fabric, context), form, beside=bool(files) or model is not None)
        return
    from weft.cli.plan.asking import ModelOptions, ModelWishes, documents_of

    if (model is None) == (not files):
        raise CommandFailure(
            "give either --file with resources, or --model with --rate, --isl, --osl, --ttft and --tpot"
        )
    refuse_to_read_twice(*(files or ()), fabric)
    if model is None and any((config, rate, isl, osl, ttft, tpot, accelerator, precision)):
        raise CommandFailure("--rate, --isl and the like go with --model: a file says them itself")
    wishes = ModelWishes(*(tuple(each or ()) for each in (ttft, tpot, accelerator, precision)))
    asked = ModelOptions.of(model, (rate, isl, osl), wishes, config) if model is not None else None
    documents = documents_of(tuple(files or ()), asked)
    world = world_from(fabric, context, imagine=True)
    from weft.cli.plan.command import PlanOptions, run_plan
    from weft.cli.plan.study_page import Money

    if not run_plan(PlanOptions(form, breakdown, export, Money(price), plot, chart), documents, world):
        raise typer.Exit(ANSWER_IS_NO)


def _plan_a_drain(nodes: list[str], where: tuple[str | None, str | None], form: Format, *, beside: bool) -> None:
    if beside:
        raise CommandFailure("--drain is about what runs: give it without --file and --model")
    from weft.cli.drain.command import run_drain

    if not run_drain(world_from(*where, imagine=False), nodes, form):
        raise typer.Exit(ANSWER_IS_NO)


def _refuse_unclear_requests(
    files: Sequence[str] | None, traces: Sequence[str], prometheus: str | None, hours: float | None
) -> None:
    """Raise `CommandFailure` unless there are files, and either traces or a Prometheus gives the requests."""
    if traces and prometheus is not None:
        raise CommandFailure("--trace and --from-prometheus both give the requests: use one of them")
    requests = traces or prometheus is not None
    if not files:
        also = "" if requests else ", and its requests with --trace or --from-prometheus"
        raise CommandFailure(f"give --file with a resource{also}")
    if not requests:
        raise CommandFailure(
            "give the requests with --trace (a file, or one such as poisson:rate=5) or --from-prometheus"
        )
    if hours is not None and prometheus is None:
        raise CommandFailure("--hours goes with --from-prometheus: a --trace has its own length")


@app.command()
def simulate(  # noqa: PLR0913 - one option a wish, as on every command line
    files: options.Files = None,
    fabric: options.FabricFile = None,
    trace: options.TraceFiles = None,
    form: Output = Format.table,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="also write one page for a browser, with charts")
    ] = None,
    *,
    policy: options.Policies = None,
    what_if: options.WhatIf = None,
    fail: options.Fails = None,
    pool: options.OnePool = None,
    start_up: options.StartUp = None,
    warm_up: options.WarmUp = 0.0,
    scale: options.Scale = 1.0,
    sort: options.SortTrace = False,
    front: options.Front = "LeastLoad",
    patience: options.Patience = None,
    retries: options.Retries = 0,
    blind: options.Blind = None,
    from_prometheus: options.FromPrometheus = None,
    hours: options.Hours = None,
    seed: options.Seed = 0,
) -> None:
    """Replay requests against a simulated cluster: whether SLOs would hold, at how many GPU-hours, by which policy.

    Weft's own decisions run as in a cluster, and the rules of other autoscalers beside them, each on the same requests.
    Needs no cluster. A made-up trace is a shape with numbers: requests a second (rate, from, to), seconds (seconds, at,
    over, every, lasting) and mean tokens of prompt and answer (isl, osl); docs/cli.md has all. Exit code 0
    also where SLOs would not hold.
    """
    from weft.cli.plan.asking import documents_of

    traces = tuple(trace or ())
    _refuse_unclear_requests(files, traces, from_prometheus, hours)
    refuse_to_read_twice(*(files or ()), fabric, *(each.rpartition("=")[2] for each in traces))
    from weft.cli.simulate.command import SimulateOptions, run_simulate
    from weft.cli.simulate.wishes import Clients, SimulationWishes

    wishes = SimulationWishes(
        trace=traces,
        what_if=tuple(what_if or ()),
        fail=tuple(fail or ()),
        pool=pool,
        start_up=start_up,
        seed=seed,
        scale=scale,
        warm_up=warm_up,
        prometheus=from_prometheus,
        hours=hours or 24.0,
        clients=Clients(front, patience, retries),
        blind=tuple(blind or ()),
        sort=sort,
    )
    documents = documents_of(tuple(files or ()), None)
    world = world_from(fabric, None, imagine=True)
    run_simulate(SimulateOptions(tuple(policy or ()), form, html), wishes, documents, world)


@app.command()
def predict(
    table: Annotated[
        Path,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="configurations and loads, one a row (docs/cli.md has the columns); - is stdin",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="where the rows go, with predictions")],
) -> None:
    """Predict latency and throughput of configurations in a table, with 80 % intervals.

    Exit code 1 when a row cannot be answered; its reason is in the table.
    """
    from weft.catalog import load
    from weft.cli.files.whole import refuse_unwritable
    from weft.cli.plan.predicting import ADDED, predicted, read_table, write_table

    refuse_unwritable(output)
    columns, rows = read_table(table)
    with working(f"predicting {len(rows)} rows"):
        answers = list(predicted(rows, load()))
    write_table(output, [*(each for each in columns if each not in ADDED), *ADDED], answers)
    answered = sum(each["answered"] == "true" for each in answers)
    show(f"{output}: {answered} of {len(answers)} rows answered")
    if answered < len(answers):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def explain(
    resource: Annotated[
        str, typer.Argument(metavar="KIND/NAME", help="InferencePool/NAME or PDSplit/NAME (wpool/NAME, pds/NAME)")
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="NAME, where the first argument is KIND alone")
    ] = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    *,
    domains: Annotated[bool, typer.Option("--domains", help="show where one more replica would go, and why")] = False,
) -> None:
    """Explain from its status why a resource is as it is. Exit code 1 while it is not Ready.

    Where a replica has no place (always with --domains) it looks at nodes and pods too, and lists each NVLink domain
    with why it was not taken.
    """
    from weft.cli.typed.reference import parse_reference

    kind, called = parse_reference(resource if name is None else f"{resource}/{name}")
    from weft.cli.cluster.reading import connect
    from weft.cli.explain.command import run_explain

    if not run_explain(connect(context, namespace), kind, called, domains=domains):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def top(
    context: options.Context = None,
    namespace: options.Namespace = None,
    seconds: options.Interval = 2.0,
    *,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="every namespace")] = False,
    once: Annotated[bool, typer.Option("--once", help="print one table and exit")] = False,
) -> None:
    """Show every pool and split in a live table (plain and once when the output is no terminal)."""
    from weft.cli.cluster.reading import connect
    from weft.cli.explain.top_page import top_page
    from weft.cli.telling.live import keep_showing
    from weft.cli.telling.terminal import console

    reader = connect(context, namespace)

    def look() -> Any:  # noqa: ANN401 - what rich prints
        pools = reader.resources("InferencePool", everywhere=everywhere)
        splits = reader.resources("PDSplit", everywhere=everywhere)
        return top_page(pools, splits, None if everywhere else reader.namespace)

    with working("reading the cluster"):
        first = look()
    if once or not console().is_terminal:
        show(first)
    else:
        keep_showing(first, look, seconds)


@app.command()
def fabric(
    context: options.Context = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            "--file",
            "-f",
            metavar="FILE",
            help="read nodes and pods from this file instead of a cluster; - is stdin; 4xH100 makes empty nodes",
        ),
    ] = None,
    form: Output = Format.table,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="also write one page for a browser")
    ] = None,
) -> None:
    """Print the tree of zones, network tiers, NVLink domains and nodes, with what runs where and what still fits."""
    from weft.cli.fabric.command import run_fabric

    run_fabric(world_from(file, context, imagine=False), form, html)


@app.command()
def crds(directory: options.CrdsDirectory = Path("crds")) -> None:
    """Write the CustomResourceDefinitions as YAML files."""
    from weft.api import write_crds

    try:
        written = write_crds(directory)
    except OSError as error:
        reason = error.strerror or error
        raise CommandFailure(f"cannot write to {directory}: {reason}; name a folder that you may write to") from error
    write("".join(f"{path}\n" for path in written))


@app.command()
def replay(
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="files or folders of `weft run --record`")],
    form: Output = Format.table,
) -> None:
    """Decide recorded passes again and compare. Exit code 1 where this Weft decides differently, 2 if it cannot."""
    from weft.cli.replaying import run_replay

    if code := run_replay(records, form):
        raise typer.Exit(code)


@app.command()
def run(  # noqa: PLR0913 - one option a setting, as on every operator's command line
    *,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    prometheus_url: options.PrometheusUrl = None,
    host: options.Host = "0.0.0.0",  # noqa: S104 - a pod's probes come from outside
    port: options.Port = 8080,
    tick: options.Tick = 2.0,
    metrics_interval: options.MetricsInterval = 5.0,
    resync: options.Resync = 120.0,
    writes_per_second: options.WritesPerSecond = 200,
    burst_writes: options.BurstWrites = 400,
    moves_per_hour: options.MovesPerHour = 0,
    moves_at_once: options.MovesAtOnce = 8,
    allow_relaxation: options.AllowRelaxations = None,
    leader_elect: options.LeaderElect = False,
    record: options.Record = None,
    record_megabytes: options.RecordMegabytes = 512,
    plain_logs: Annotated[bool, typer.Option("--plain-logs", help="log lines for people instead of JSON")] = False,
) -> None:
    """Run the operator against a cluster until SIGTERM or Ctrl-C."""
    cli.keep_less_garbage()
    from weft.cli.cluster.kubeconfig import choose_context, is_in_a_pod

    if kubeconfig is not None or context is not None or not is_in_a_pod():
        choose_context(kubeconfig, context)
    from weft import control

    control.run(
        control.RunOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespaces=tuple(namespace or ()),
            prometheus_url=prometheus_url,
            host=host,
            port=port,
            tick_seconds=tick,
            metrics_seconds=metrics_interval,
            resync_seconds=resync,
            writes_per_second=writes_per_second,
            burst_writes=burst_writes,
            json_logs=not plain_logs,
            moves_per_hour=moves_per_hour,
            moves_at_once=moves_at_once,
            relaxations=tuple(allow_relaxation or ()),
            leader_elect=leader_elect,
            record=record,
            record_megabytes=record_megabytes,
        )
    )


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="the shell that runs the script")],
) -> None:
    """Print a script that lets a shell complete commands and options: `source <(weft completion bash)`."""
    write_script(shell)


@app.command()
def version() -> None:
    """Print the version, as --version does."""
    _write_version()
