"""Reads commands (a JSON list of lists of words) from stdin and writes what `vllm serve` has against each.

Runs inside the engine environment; nothing else of the test cluster imports it. It parses as the server does before it
loads anything: names, types, choices, JSON settings, and its own checks of what goes together.
"""

import json
import logging
import sys
from typing import NoReturn

from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]
from vllm.utils import argparse_utils  # type: ignore[import-not-found]


class Refused(Exception):  # noqa: N818 - a verdict
    pass


class Parser(argparse_utils.FlexibleArgumentParser):  # type: ignore[misc] # there is no vLLM where types are checked
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


class Warnings(logging.Handler):
    """Keeps what the parser warns of: options that are given twice, and deprecated ones."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def main() -> None:
    warnings = Warnings()
    argparse_utils.logger.addHandler(warnings)
    parser, serve = Parser(prog="vllm"), ServeSubcommand()
    serve.subparser_init(parser.add_subparsers(dest="subparser"))
    found = []
    for command in json.load(sys.stdin):
        warnings.said.clear()
        found.append([*problems(parser, serve, command), *warnings.said])
    json.dump(found, sys.stdout)


def problems(parser: Parser, serve: ServeSubcommand, command: list[str]) -> list[str]:
    try:
        arguments = parser.parse_args(command[1:])
        serve.validate(arguments)
        AsyncEngineArgs.from_cli_args(arguments)
    except (Refused, TypeError, ValueError) as problem:
        return [str(problem)]
    return []


if __name__ == "__main__":
    main()
