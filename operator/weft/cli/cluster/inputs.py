"""Inputs of several commands: nodes and pods from a file, a cluster or nowhere, and a check for standard input.

Readers are only loaded when they are used: `weft --help` waits for no parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.ends.failure import CommandFailure
from weft.cli.telling.terminal import working

if TYPE_CHECKING:
    from weft.cli.cluster.world import World


def world_from(file: str | None, context: str | None, *, imagine: bool) -> World:
    """Read nodes and pods from the file, or else from the cluster of a kubeconfig context (None: the current one).

    In place of a file, `4xH100` makes so many empty nodes. With `imagine` and neither given, return an empty cluster
    with every accelerator that Weft knows. Raises `CommandFailure` for both at once, for a file that cannot be parsed
    and for a cluster that does not answer.
    """
    from weft.catalog import load
    from weft.cli.cluster.counted_nodes import counted_nodes, is_counted, refuse_a_miscount
    from weft.cli.cluster.world import imagined_world, world_of_cluster, world_of_counts, world_of_file
    from weft.cli.files.reading import shown

    if file is not None and context is not None:
        raise CommandFailure("a file with nodes and --context exclude each other: give one of them")
    if file is not None and is_counted(file):
        return world_of_counts(counted_nodes(file, load()))
    if file is not None:
        refuse_a_miscount(file)
        with working(f"reading {shown(file)}"):
            return world_of_file(file)
    if context is None and imagine:
        return imagined_world(load())
    from weft.cli.cluster.reading import connect

    with working("reading nodes and pods of the cluster"):
        return world_of_cluster(connect(context, None))


def refuse_to_read_twice(*inputs: str | None) -> None:
    """Raise `CommandFailure` where more than one of the files is standard input."""
    from weft.cli.files.reading import STANDARD_INPUT

    if inputs.count(STANDARD_INPUT) > 1:
        raise CommandFailure("standard input can be read once: put the rest into files")
