"""One candidate shape with its context: all that speaks for and against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.calibrated import ENOUGH_POINTS, calibrated_spread
from weft.domain.calibration import NOTHING_KNOWN, CalibrationSubject, factors_for, measured_on
from weft.domain.shape import Calibration
from weft.engines.images.tags import wished_version
from weft.engines.kv.handover import wire_of
from weft.engines.model.sharing import Sharing
from weft.engines.options.batches import counted_on
from weft.perf import ErrorBar, ReplicaModel, stored_kv
from weft.perf.crossing import joined
from weft.shaping.speculating import resolve_speculation

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.catalog.limits import EngineLimits
    from weft.shaping.candidates import Option
    from weft.shaping.request import ShapeRequest


@dataclass(frozen=True, slots=True)
class ShapeCase:
    """One candidate shape, the request and the catalog."""

    option: Option
    request: ShapeRequest
    catalog: Catalog

    @property
    def replica(self) -> ReplicaModel:
        """The performance model's input; call it only once the precision is known to be served."""
        shape, supply, accelerator = self.option.shape, self.option.supply, self.option.accelerator
        architecture = self.request.architecture
        usual = self.catalog.efficiency(accelerator, shape.engine, shape.precision, self.engine_version)
        known = self.catalog.efficiency_for(architecture, shape.engine, usual)
        replica = ReplicaModel(
            architecture=architecture,
            shape=shape,
            accelerator=accelerator.part(supply.memory_bytes) if supply.shared else accelerator,
            efficiency=counted_on(known, self.request.spec.engine, shape),
            memory_bytes=supply.memory_bytes,
            kv_precision=stored_kv(self.request.spec.kv.precision, shape.precision),
            speculation=resolve_speculation(self.request.spec.engine, architecture, self.catalog),
            calibration=self._factors,
            wire=wire_of(self.request.spec),
        )
        return joined(replica)

    @property
    def _factors(self) -> Calibration:
        """Calibration factors without their counts, so that predictions are cached by factors alone."""
        found = factors_for(self.subject, self.request.calibration) if self.subject else NOTHING_KNOWN
        return Calibration(found.prefill, found.decode)

    @property
    def subject(self) -> CalibrationSubject | None:
        """The subject that live metrics of this shape calibrate; None if no release is settled for its engine."""
        release = self.request.engine
        if release is None or release.name is not self.option.shape.engine:
            return None
        return CalibrationSubject.of(self.request.spec.model.model_id, release, self.option.shape)

    @property
    def error_bar(self) -> ErrorBar:
        """The error bar: factors that latencies exceed their prediction by one time in ten.

        It is smaller once this very shape was measured: similar shapes share its factors, but are not measured
        themselves.
        """
        spread = self.catalog.spread(self.request.architecture, self.option.shape, self.option.accelerator)
        own = measured_on(self.subject, self.request.calibration) if self.subject else None
        if own is not None:
            spread = calibrated_spread(spread, own)
        measured = own is not None and own.points >= ENOUGH_POINTS
        return ErrorBar(spread.ttft, spread.tpot, guessed=not measured and not self.would_replace_what_is_measured)

    @property
    def would_replace_what_is_measured(self) -> bool:
        """Whether another shape runs whose error was measured, as nobody should leave it for a guess.

        A measured error bar may take any part of a capacity and a guess at most half, so comparing the two would be
        unfair.
        """
        running = self.request.incumbent
        if running is None or running.shape == self.option.shape:
            return False
        subject = CalibrationSubject.of(self.request.spec.model.model_id, running.engine, running.shape)
        known = measured_on(subject, self.request.calibration)
        return known is not None and known.points >= ENOUGH_POINTS

    @property
    def engine_version(self) -> str:
        """The version that will run: the settled one, else the wished one, if by its image's tag, or the default."""
        if self.request.engine is not None:
            return self.request.engine.version
        engine = self.option.shape.engine
        return wished_version(self.request.spec.engine, engine) or self.catalog.engine(engine).version

    @property
    def sharing(self) -> Sharing:
        """The facts that decide whether context parallelism (DCP, PCP) is possible."""
        spec, architecture, on = self.request.spec, self.request.architecture, self.option.accelerator
        return Sharing(self.option.shape, spec, architecture, self.engine_version, on.vendor, on.generation)

    @property
    def release(self) -> str:
        """Engine and version, as messages name them."""
        return f"{self.option.shape.engine.value} {self.engine_version}"

    @property
    def limits(self) -> EngineLimits:
        """The engine's limits: which release can do what."""
        return self.catalog.engine(self.option.shape.engine).limits

    @property
    def is_of_another_generation(self) -> bool:
        """Whether the other half of the split runs on GPUs whose KV cache this one could not read."""
        partner = self.request.partner
        return partner is not None and self.option.accelerator.generation != partner.generation
