"""Makes SVG pictures follow the colour scheme of the page that they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def also_dark(svg: str, dark: Mapping[str, str]) -> str:
    """Add a rule for each colour where the page is dark; programs that ignore the rule show the light picture."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{instead}!important}}'
        for light, instead in dark.items()
        for kind in ("fill", "stroke")
    )
    style = f'<style type="text/css">@media (prefers-color-scheme: dark){{{rules}}}</style>'
    return svg.replace("</svg>", f"{style}\n</svg>")
