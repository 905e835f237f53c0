"""Facts as data: accelerators, models and engines, with typed loaders.

`catalog`: all of it. `loading`: from the files of this package. `programs`: what runs in pods, as text.
Engines and accelerators. `performance`: what is known of speed. `efficiency`: how coefficients are composed.
    `uncertainty`: how far predictions are off, and `calibrated`: once something was measured. `limits`: what a release
    can do. `options` and `option_rules`: what its command line has and requires. `starting`: how long starts take.
    `notices`: of clouds that take nodes back.
A model's config.json. `config_json`: strictly into an architecture. `config_map`: one that is not there. `families`:
    how each class is read. `mixers`, `hybrids`, `feed_forwards`, `irregular`: layers. `context`: the longest sequence.
    `checkpoint`: the precision of its weights. `drafting`: what drafts for it. `parameters`: how many it has. `fields`:
    JSON that nobody trusts.
`names`: suggestions for an unknown one. `spelling`: those that people write in tables.
"""

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
