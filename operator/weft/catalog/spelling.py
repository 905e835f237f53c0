"""Names as people write them in tables: without vendors, form factors and suffixes that distinguish nothing.

Only for reading tables: a resource has exact names.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from weft.catalog.catalog import Catalog
    from weft.domain.hardware import Accelerator
    from weft.domain.model import Architecture

# Words of a GPU's name that its short name implies.
_OF_EVERY_GPU = re.compile(
    r"(nvidia|amd|intel|instinct|tesla|tensor|core|gpu|hgx|dgx|oam|sxm\d*|hbm\d\w?|nvl36|nvl72|server|edition|blackwell|hopper)"
)
# What device discovery appends to the product of a partitioned or shared GPU.
_MIG = re.compile(r"-MIG-\d+g\.(?P<gigabytes>\d{1,4})gb", re.IGNORECASE)
_SHARED = "-shared"
_GB = 10**9
_SIZE = re.compile(r"(\d{2,3})(g|gb|gib)?")  # memory, such as 80GB
_ALIKE = 0.08  # of a memory size: marketed figures are near GB or near GiB
# Words of a model's name that do not change its architecture.
_OF_EVERY_MODEL = frozenset({"meta", "instruct", "chat", "hf", "it", "pt", "base", "v1", "nvidia"})
_LEAST_WORDS = 2  # of a name that others may continue
# Parameters of a dense model, and what only names of sparse ones have: parameters in use (a22b), or experts (128e).
_PARAMETERS, _OF_SPARSE = re.compile(r"\d+(\.\d+)?b"), re.compile(r"a\d+(\.\d+)?b|\d+e")


def accelerator_as_written(catalog: Catalog, name: str) -> Accelerator | None:
    """The accelerator in a table: by its catalog name, a node's label, or a spelling such as `H100 SXM 80GB`."""
    return _accelerator_as_written(catalog, name.strip())


def device_as_written(accelerator: Accelerator, name: str) -> Accelerator:
    """The device that a name in a table means: a MIG device by its profile (`...-MIG-3g.40gb`), or the whole GPU.

    Raises `Invalid` for a shared GPU, as its label does not say among how many.
    """
    if name.strip().casefold().endswith(_SHARED):
        why = f"gpu {name.strip()!r:.60} is shared by an unknown number of users: name the whole GPU, or a MIG device"
        raise Invalid(Reason.SharedDevice, why)
    profile = _MIG.search(name)
    return accelerator if profile is None else accelerator.part(int(profile["gigabytes"]) * _GB)


def architecture_as_written(catalog: Catalog, name: str) -> Architecture | None:
    """The model in a table: by its catalog name, without words that distinguish nothing, or by a unique prefix.

    A prefix leaves out no size, unless that of a sparse model.
    """
    return catalog.architecture(name) or _architecture_as_written(catalog, name)


@functools.lru_cache(maxsize=1024)
def _accelerator_as_written(catalog: Catalog, name: str) -> Accelerator | None:
    exact = next((each for each in catalog.accelerators if each.name.casefold() == name.casefold()), None)
    if (known := exact or catalog.accelerator_of_product(name)) is not None:
        return known
    word, memory = _gpu_words(name)
    alike = [each for each in catalog.accelerators if _gpu_words(each.name)[0] == word]
    if memory is None:
        return min(alike, key=lambda each: len(each.name), default=None)
    return next((each for each in alike if _has_about(each, memory)), None)


def _gpu_words(name: str) -> tuple[str, int | None]:
    """What remains of a GPU's name, as one word, and the memory in GB, if it names one."""
    kept: list[str] = []
    memory = None
    for word in re.split(r"[\s_\-/()]+", name.casefold()):
        size = _SIZE.fullmatch(word)
        if size and kept:
            memory = int(size[1])
        elif word and not _OF_EVERY_GPU.fullmatch(word):
            kept.append(word)
    return "".join(kept), memory


def _has_about(accelerator: Accelerator, gigabytes: int) -> bool:
    units = (GIB, 1e9)
    return any(abs(accelerator.memory_bytes / unit / gigabytes - 1.0) <= _ALIKE for unit in units)


@functools.lru_cache(maxsize=1024)
def _architecture_as_written(catalog: Catalog, name: str) -> Architecture | None:
    wanted = _model_words(name)
    spelt = [(model, [_model_words(each) for each in (model.model_id, *model.aliases)]) for model in catalog.models]
    same = [model for model, all_words in spelt if wanted in all_words]
    longer = [model for model, all_words in spelt if any(_continues(words, wanted) for words in all_words)]
    meant = same or (longer if len(wanted) >= _LEAST_WORDS else [])
    return meant[0].architecture if len(meant) == 1 else None


def _continues(words: list[str], wanted: list[str]) -> bool:
    """Whether a name goes on after the wanted words, and not with a size: dense models of one name have several."""
    rest = words[len(wanted) :]
    is_one_of_several = any(map(_PARAMETERS.fullmatch, rest)) and not any(map(_OF_SPARSE.fullmatch, rest))
    return words[: len(wanted)] == wanted and not is_one_of_several


def _model_words(name: str) -> list[str]:
    """Words of a model's name without the organisation; `Llama-3_3`, `Llama3.3` and `Llama 3.3` are equal."""
    plain = re.sub(r"(?<=\d)_(?=\d)", ".", name.casefold().rpartition("/")[2])
    plain = re.sub(r"(?<=[a-z]{2})(?=\d)", " ", plain)
    return [word for word in re.split(r"[\s_\-]+", plain) if word and not _is_said_of_every(word)]


def _is_said_of_every(word: str) -> bool:
    return word in _OF_EVERY_MODEL or re.fullmatch(r"v0\.\d", word) is not None
