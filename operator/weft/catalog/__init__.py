"""Facts as data: accelerators, models and engines, with typed loaders."""

from weft.catalog.catalog import Catalog, EngineFacts, KnownModel
from weft.catalog.config_json import architecture_from_config
from weft.catalog.config_map import missing_config
from weft.catalog.efficiency import Efficiency
from weft.catalog.loading import load
from weft.catalog.parameters import parameter_count
from weft.catalog.programs import download_program, front_program, mpi_program

__all__ = [
    "Catalog",
    "Efficiency",
    "EngineFacts",
    "KnownModel",
    "architecture_from_config",
    "download_program",
    "front_program",
    "load",
    "missing_config",
    "mpi_program",
    "parameter_count",
]
