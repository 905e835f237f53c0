"""The page size of SGLang's KV cache, which attention backends may set for themselves.

Either half sets it for both phases by all three options, and decode refuses requests of a prefill with another one.
Read in server_args.py of 0.5.3.post3 and 0.5.8, and in arg_groups/overrides.py of 0.5.15
(`_mla_backend_page_constraints`, `_fa4_page_constraint`).
"""

from __future__ import annotations

from weft.engines.options.spellings import values_given

_OF_BOTH, _OF_DECODE, _OF_PREFILL = "--attention-backend", "--decode-attention-backend", "--prefill-attention-backend"
_SIZE = "--page-size"
# Sizes that a backend takes, in tokens, of which it sets the last in place of any other; in SGLang's order. That of fa4
# is left alone with latent attention and before Blackwell, which no argument tells.
_TAKES = {
    "flashmla": ("64",),
    "cutlass_mla": ("128",),
    "trtllm_mla": ("32", "64"),
    "tokenspeed_mla": ("32", "64"),
    "cutedsl_mla": ("32", "64"),
    "trtllm_mha": ("16", "32", "64"),
    "fa4": ("128",),
}
_SET_BY_PREFILL = frozenset({"cutedsl_mla", "trtllm_mha", "fa4"})  # the others are looked for as decode's alone


def page_size(args: tuple[str, ...]) -> str:
    """Tokens of a page as these arguments leave it; empty for the engine's default."""
    told = values_given(args, (_OF_BOTH, _OF_DECODE, _OF_PREFILL, _SIZE), {})
    size = told.get(_SIZE, "")
    for backend, takes in _TAKES.items():
        options = (_OF_BOTH, _OF_DECODE, *((_OF_PREFILL,) if backend in _SET_BY_PREFILL else ()))
        if any(told.get(option) == backend for option in options) and size not in takes:
            size = takes[-1]
    return size
