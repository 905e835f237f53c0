"""The commands. Each reads its input, asks the core, and prints; errors are one sentence on stderr (see `failure`)."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.live import Live

from weft import __version__
from weft.cli.failure import ANSWER_IS_NO, failures_become_one_sentence
from weft.cli.files import load_documents, of_kind

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Weft weaves LLM inference into a GPU fabric. "
    "Exit codes: 0 yes, 1 the answer is no, 2 wrong input, 3 the cluster refuses.",
)
WIDTH_OF_A_PIPE = 180  # columns, when nobody watches a terminal
output = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_OF_A_PIPE)


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    yaml = "yaml"


Context = Annotated[str | None, typer.Option("--context", help="kubeconfig context; unset: the current one")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="namespace; unset: the context's")]
Output = Annotated[Format, typer.Option("--output", "-o", help="how to print the answer")]


def _print_data(data: Any, form: Format) -> None:  # noqa: ANN401 - whatever the answer is
    if form is Format.json:
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
    else:
        typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


@app.callback(invoke_without_command=True)
def version_option(
    *, version: Annotated[bool, typer.Option("--version", help="print the version and exit", is_eager=True)] = False
) -> None:
    """Options of `weft` itself."""
    if version:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.command()
def plan(
    file: Annotated[str, typer.Option("--file", "-f", help="YAML with InferencePools and PDSplits; - is stdin")],
    fabric: Annotated[
        str | None, typer.Option("--fabric", help="nodes as `kubectl get nodes -o yaml` prints them")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="plan against this cluster; it is only read")] = None,
    form: Output = Format.table,
) -> None:
    """Say which shape would be chosen, where replicas would go, and why the alternatives lost."""
    with failures_become_one_sentence():
        from weft.catalog import load
        from weft.cli.plan_page import as_data, as_page, is_a_yes
        from weft.cli.planning import imagined_world, plan_all

        documents = load_documents(file)
        world = _world(fabric, context) or imagined_world(load())
        planned = plan_all(documents, world, load(), time.time())
        if form is Format.table:
            if fabric is None and context is None:
                output.print("[dim]no --fabric and no --context: planned for an empty cluster with all accelerators[/]")
            for one in planned:
                output.print(as_page(one))
        else:
            _print_data([as_data(one) for one in planned], form)
    if not all(is_a_yes(one) for one in planned):
        raise typer.Exit(ANSWER_IS_NO)


def _world(fabric: str | None, context: str | None) -> Any:  # noqa: ANN401 - weft.cli.planning.World or None
    from weft.cli.cluster import connect
    from weft.cli.failure import CommandFailure
    from weft.cli.planning import World
    from weft.observe.records import read_node, read_pod

    if fabric is not None and context is not None:
        raise CommandFailure("give --fabric or --context, not both")
    if fabric is not None:
        documents = load_documents(fabric)
        nodes, pods = of_kind(documents, "Node"), of_kind(documents, "Pod")
        if not nodes:
            raise CommandFailure(f"{fabric} holds no Node: make it with `kubectl get nodes -o yaml`")
    elif context is not None:
        reader = connect(context, None)
        nodes, pods = reader.nodes(), reader.pods()
    else:
        return None
    read = [pod for pod in map(read_pod, pods) if pod is not None]
    return World(tuple(read_node(node) for node in nodes), tuple(read))


@app.command()
def explain(
    resource: Annotated[str, typer.Argument(help="InferencePool/NAME or PDSplit/NAME (wpool/NAME, pds/NAME)")],
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Tell from its status why a resource is as it is. Exit code 1 while it is not Ready."""
    with failures_become_one_sentence():
        from weft.cli.cluster import connect, parse_reference
        from weft.cli.explain_page import explanation, is_ready

        kind, name = parse_reference(resource)
        body = connect(context, namespace).resource(kind, name)
        output.print(explanation(body))
    if not is_ready(body):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def top(
    context: Context = None,
    namespace: Namespace = None,
    seconds: Annotated[float, typer.Option("--interval", min=0.5, help="seconds between looks")] = 2.0,
    *,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="every namespace")] = False,
    once: Annotated[bool, typer.Option("--once", help="print one table and exit")] = False,
) -> None:
    """Show every pool and split in a live table (plain and once when the output is no terminal)."""
    with failures_become_one_sentence():
        from weft.cli.cluster import connect
        from weft.cli.top_page import top_table

        reader = connect(context, namespace)

        def look() -> Any:  # noqa: ANN401 - a rich table
            pools = reader.resources("InferencePool", everywhere=everywhere)
            return top_table(pools, reader.resources("PDSplit", everywhere=everywhere))

        if once or not output.is_terminal:
            output.print(look())
            return
        with Live(look(), console=output, screen=True) as live:
            try:
                while True:
                    time.sleep(seconds)
                    live.update(look())
            except KeyboardInterrupt:
                return


@app.command()
def fabric(
    context: Context = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="nodes from a file instead of a cluster")] = None,
    form: Output = Format.table,
) -> None:
    """Print the tree of zones, NVLink domains and nodes with what is free."""
    with failures_become_one_sentence():
        from weft.catalog import load
        from weft.cli.cluster import connect
        from weft.cli.fabric_page import fabric_data, fabric_tree
        from weft.cli.planning import World
        from weft.fabric import build_fabric
        from weft.observe.records import read_node, read_pod

        world = _world(file, None)
        if world is None:
            reader = connect(context, None)
            read = [pod for pod in map(read_pod, reader.pods()) if pod is not None]
            world = World(tuple(map(read_node, reader.nodes())), tuple(read))
        built = build_fabric(world.nodes, world.pods, load())
        if form is Format.table:
            output.print(fabric_tree(built))
        else:
            _print_data(fabric_data(built), form)


@app.command()
def crds(
    directory: Annotated[Path, typer.Argument(help="folder to write the CustomResourceDefinitions to")] = Path("crds"),
) -> None:
    """Write the CustomResourceDefinitions as YAML files."""
    with failures_become_one_sentence():
        from weft.api.crd import write_crds

        for path in write_crds(directory):
            typer.echo(path)


@app.command()
def run(  # noqa: PLR0913 - one option a setting, as on every operator's command line
    *,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", help="unset: the service account, or the usual file")
    ] = None,
    context: Context = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="serve and write only here; repeatable")
    ] = None,
    prometheus_url: Annotated[
        str | None, typer.Option("--prometheus-url", help="unset: engines are scraped directly")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="address of /healthz, /readyz and /metrics")] = "0.0.0.0",  # noqa: S104 - a pod's probes come from outside
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="their port; 0 takes a free one")] = 8080,
    tick: Annotated[float, typer.Option("--tick", help="seconds between decisions when nothing happens")] = 2.0,
    metrics_interval: Annotated[
        float, typer.Option("--metrics-interval", help="seconds between looks at metrics")
    ] = 5.0,
    resync: Annotated[float, typer.Option("--resync", help="seconds between full passes")] = 120.0,
    plain_logs: Annotated[bool, typer.Option("--plain-logs", help="log lines for people instead of JSON")] = False,
) -> None:
    """Run the operator against a cluster until it is told to stop."""
    with failures_become_one_sentence():
        from weft.control import RunOptions
        from weft.control import run as run_operator

        run_operator(
            RunOptions(
                kubeconfig=kubeconfig,
                context=context,
                namespaces=tuple(namespace or ()),
                prometheus_url=prometheus_url,
                host=host,
                port=port,
                tick_seconds=tick,
                metrics_seconds=metrics_interval,
                resync_seconds=resync,
                json_logs=not plain_logs,
            )
        )
