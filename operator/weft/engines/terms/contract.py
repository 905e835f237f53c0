"""The interface of every engine adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import ContainerLaunch, FrontRequest, LaunchRequest, LeavesBy


class EngineAdapter(Protocol):
    """All that Weft knows of one engine. Every method is a pure function of its arguments."""

    @property
    def leaves_front_by(self) -> LeavesBy:
        """How a pod is taken out of the engine's own router."""

    @property
    def pairs_in_its_image(self) -> bool:
        """Whether its router for a prefill/decode pair is a program in the engine's image, not an image of its own."""

    @property
    def picks_by_load(self) -> bool:
        """Whether its router for a pool gives each request without a known prefix to the replica with the fewest."""

    @property
    def picks_prefill_by_load(self) -> bool:
        """Whether its router for a pair gives each prompt without a known prefix to the prefill replica with fewest."""

    @property
    def counts_handover(self) -> bool:
        """Whether the TTFT that a prefill half reports includes the KV transfer to the decode half."""

    @property
    def port(self) -> int:
        """The port on which the first pod of a replica takes requests."""

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """The container of one rank; raises `Invalid` for a request that this engine or version cannot fulfil."""

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """The container of the engine's own router in front of replicas or of a pair of pools."""

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        """Why the first of the user's arguments that sets what Weft sets is refused, with the field to use, or None."""

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        """The user's arguments that this version does not know, each with what it may mean.

        Empty if the options of the version are not known. Unknown arguments are passed on all the same.
        """

    def failure(self, text: str) -> Explanation | None:
        """Why the engine ended, from a termination message or log tail, in the engine's own line; None if unknown.

        `EngineFailed` with the root cause; `EngineCoreDied` if the text only says that one of its processes is gone.
        """
