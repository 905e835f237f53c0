"""Pictures that follow the page they stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def also_dark(svg: str, dark: Mapping[str, str]) -> str:
    """The SVG with a rule for each colour where a page is dark; programs that know no such rule show it light."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{instead}!important}}'
        for light, instead in dark.items()
        for kind in ("fill", "stroke")
    )
    style = f'<style type="text/css">@media (prefers-color-scheme: dark){{{rules}}}</style>'
    return svg.replace("</svg>", f"{style}\n</svg>")
