"""How long a replica takes from its node to its first answer, and what that is made of."""

from __future__ import annotations

from dataclasses import dataclass

from weft.domain.figures import seconds


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds of a start: pulling the engine's `image`, getting the `weights` to the GPUs, the `engine`'s own work.

    These are estimated. `measured` is what starts of the pool took in all, None before one was; it is in use at once.
    """

    image: int
    weights: int
    engine: int
    measured: int | None = None

    @property
    def estimated(self) -> int:
        """Of all parts."""
        return self.image + self.weights + self.engine

    @property
    def basis(self) -> str:
        """The time that is in use, and where it is from: `140 s measured`, `316 s estimated`."""
        if self.measured is not None:
            return f"{seconds(self.measured)} measured"
        return f"{seconds(self.estimated)} estimated"

    @property
    def parts(self) -> str:
        """What is estimated of each part: `image 100 s, weights 68 s, engine 148 s`."""
        named = (("image", self.image), ("weights", self.weights), ("engine", self.engine))
        return ", ".join(f"{name} {seconds(value) if value else '0 s'}" for name, value in named)

    def __str__(self) -> str:
        """The one line of the status, of `weft explain` and of `weft plan`."""
        if self.measured is None:
            return f"{self.basis}: {self.parts}"
        return f"{self.basis}; {seconds(self.estimated)} estimated: {self.parts}"
