"""The init container that downloads weights before the engine runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog import download_program
from weft.domain.relaxations import RUNS_AS_ROOT
from weft.engines.options.given import literally
from weft.render.container import render_container

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec
    from weft.engines import ContainerLaunch
    from weft.render.metadata import Json

WARM_UP_CONTAINER = "weights"
_OF_THE_ENGINE = ("cpu", "memory")  # so that the pod needs no more than without it, and a quota admits it


def warm_up(spec: PoolSpec, launch: ContainerLaunch, image: str, port: int) -> list[Json]:
    """The container that downloads the weights, or an empty list.

    It runs in the engine's image and environment, and reports progress on the engine's port: the node pulls one image,
    and whoever may reach the engine may read the progress.
    """
    source = spec.model.source
    if source is None or not source.warm_up:
        return []
    arguments = (source.location, str(port), *((source.revision,) if source.revision is not None else ()))
    program = replace(
        launch,
        command=("python3", "-c", download_program(), *literally(arguments)),
        ports=(),
        startup=None,
        readiness=None,
        shared_memory_bytes=0,
        files=(),
        huge_pages=(),
        disk_bytes=0,
    )
    # The engine writes into the download's folder, so both run as one user; only the engine registers memory.
    as_user = [each for each in spec.pod.relaxations if each == RUNS_AS_ROOT]
    container = render_container(program, WARM_UP_CONTAINER, as_user)
    del container["lifecycle"]  # nothing routes to it
    amounts = {name: amount for name, amount in spec.engine.resources if name in _OF_THE_ENGINE}
    limits = {name: amount for name, amount in amounts.items() if name != "cpu"}
    return [{**container, "image": image, "resources": {"requests": amounts, "limits": limits}}]
