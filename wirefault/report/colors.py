"""Colours of pages and charts, as ``#rrggbb``; outcomes and toxics have theirs in their own tables."""

from __future__ import annotations

from collections.abc import Mapping

SEVERITIES: Mapping[str, str] = {"harmful": "#b3122d", "risky": "#f0b429", "wasteful": "#a36bb8"}
REQUEST = "#0072b2"
"""An answered request, a rate, an episode without a fault."""
CLEAN = "#7b8794"
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "ink": "#1f2933",
    "muted": "#52606d",
    "faint": "#d3dae1",
    "ghost": "#f3f5f7",
    "link": "#0b5cad",
    "mark": "#ffe08a",
    "good": "#0a6b4f",
    "bad": "#b3122d",
    "open": "#7a5200",
    "shade": "#f6d9a8",
    "fault": "#b3122d",
}
DARK: Mapping[str, str] = {
    "paper": "#14181d",
    "ink": "#e6eaee",
    "muted": "#a9b4bf",
    "faint": "#39424c",
    "ghost": "#1d232a",
    "link": "#7ab8ff",
    "mark": "#6b5300",
    "good": "#5fd0a6",
    "bad": "#ff8a9a",
    "open": "#f0c060",
    "shade": "#4a3a1c",
    "fault": "#ff8a9a",
}


def css_variables() -> str:
    """Return the colours as CSS variables: ``--ink`` and others, of which some change in dark mode."""
    fixed = {**SEVERITIES, "request": REQUEST, "clean": CLEAN}
    light, dark = (
        ";".join(f"--{name}:{color}" for name, color in colors.items())
        for colors in ({**LIGHT, **fixed}, DARK)
    )
    return (
        f":root{{{light};color-scheme:light dark}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
