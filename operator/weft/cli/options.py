"""What the values of options must look like: checked before anything else is done."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import typer

from weft.cli.reference import refused_namespace


def namespace(name: str | None) -> str | None:
    """A name that a namespace may have."""
    refused = refused_namespace(name) if name is not None else None
    if refused is not None:
        raise typer.BadParameter(refused)
    return name


def namespaces(names: list[str] | None) -> list[str] | None:
    """Such names."""
    return [name for name in names or () if namespace(name)] or None


def web_address(url: str | None) -> str | None:
    """An http or https URL with a host."""
    if url is not None and not _is_web_address(url):
        raise typer.BadParameter(f"{url!r} is no URL of a Prometheus: write for example http://prometheus:9090")
    return url


def address(host: str) -> str:
    """A name or number that leads somewhere; that it is this machine's own is found out by listening there."""
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
