"""What every engine adapter answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.launch import ContainerLaunch, FrontRequest, LaunchRequest, LeavesBy


class EngineAdapter(Protocol):
    """All that Weft knows of one engine. Every method is a pure function of its arguments."""

    @property
    def leaves_front_by(self) -> LeavesBy:
        """How a pod leaves the front that belongs to this engine."""

    @property
    def pairs_in_its_image(self) -> bool:
        """Whether its front before a pair is a program of the engine's own image, and not an image of its own."""

    @property
    def counts_handover(self) -> bool:
        """Whether the TTFT that it tells of a prefill half ends when the other half has the KV, and not before."""

    @property
    def port(self) -> int:
        """Where the first pod of a replica takes requests."""

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """The container of one rank; raises `Invalid` for a wish that this engine or version cannot fulfil."""

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """The container of the engine's own router in front of replicas or of a pair of pools."""

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        """Why the user's arguments may not be added: the first that decides what Weft decides, and the field to use."""

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        """Those of the user's arguments that this version does not know, with what they may mean.

        None of them where nobody knows the options of the version. They are passed on all the same.
        """

    def failure(self, text: str) -> Explanation | None:
        """What a termination message or log tail says of the end, in the engine's own line.

        `EngineFailed` with the root cause; `EngineCoreDied` where it only says that a process of it is gone.
        """
